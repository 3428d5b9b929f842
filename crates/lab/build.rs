//! The fonts, compressed: raw they are a seventh of the static binary.

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "png")]
    for (name, font) in [("regular", dejavu::sans::regular()), ("bold", dejavu::sans::bold())] {
        use std::io::{Error, Write};

        let dir = std::env::var("OUT_DIR").map_err(Error::other)?;
        let file = std::fs::File::create(std::path::Path::new(&dir).join(name))?;
        let mut zlib = flate2::write::ZlibEncoder::new(file, flate2::Compression::best());
        zlib.write_all(font)?;
        zlib.finish()?;
    }
    Ok(())
}
