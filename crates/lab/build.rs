//! Packs the letters of pictures: as they are they would be a seventh of the static binary.

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "png")]
    pack_fonts()?;
    Ok(())
}

#[cfg(feature = "png")]
fn pack_fonts() -> std::io::Result<()> {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    for (name, font) in [("regular", dejavu::sans::regular()), ("bold", dejavu::sans::bold())] {
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
        packed.write_all(font)?;
        std::fs::write(out.join(name), packed.finish()?)?;
    }
    Ok(())
}
