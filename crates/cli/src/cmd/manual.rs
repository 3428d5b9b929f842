//! Manual pages, from the command line's own definition.

use std::io;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;

use crate::args::Cli;

/// What clap_mangen calls the text behind the options.
const BEHIND: &str = ".SH EXTRA";

/// The page of `tack` itself.
pub(super) fn page() -> io::Result<String> {
    rendered(Man::new(Cli::command()))
}

/// Writes a page for each command into `dir`.
pub(super) fn write_all(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut cli = Cli::command().disable_help_subcommand(true);
    // From here on commands know their whole names.
    cli.build();
    write_with_parts(cli, dir)
}

fn write_with_parts(cmd: Command, dir: &Path) -> io::Result<()> {
    for part in cmd.get_subcommands().filter(|part| !part.is_hide_set()) {
        write_with_parts(part.clone(), dir)?;
    }
    let man = Man::new(cmd.mut_args(with_other_names));
    std::fs::write(dir.join(man.get_filename()), rendered(man)?)
}

/// An option's other names, which clap_mangen leaves out, as --help says them.
fn with_other_names(arg: Arg) -> Arg {
    let Some(names) = arg.get_visible_aliases().filter(|names| !names.is_empty()) else {
        return arg;
    };
    let Some(help) = arg.get_long_help().or(arg.get_help()) else { return arg };
    let help = format!("{help} [aliases: --{}]", names.join(", --"));
    arg.long_help(help)
}

fn rendered(man: Man) -> io::Result<String> {
    let mut page = Vec::new();
    man.source(concat!("tack ", env!("CARGO_PKG_VERSION"))).render(&mut page)?;
    Ok(laid_out(&String::from_utf8_lossy(&page)))
}

/// Gives what is behind the options headings, and leaves indented lines as they are typed.
fn laid_out(page: &str) -> String {
    let Some((front, behind)) = page.split_once(BEHIND) else { return page.to_owned() };
    let mut out = front.to_owned();
    let (mut begun, mut verbatim) = (false, false);
    for line in behind.trim_start().lines() {
        let heading = match line {
            "Example:" | "Examples:" => Some(".SH EXAMPLES"),
            "Exit status:" => Some(".SH EXIT STATUS"),
            _ => None,
        };
        if !begun && heading.is_none() {
            out += ".SH NOTES\n";
        }
        begun = true;
        let indented = line.starts_with(' ') || verbatim && line.is_empty();
        if indented != verbatim {
            out += if indented { ".nf\n" } else { ".fi\n" };
            verbatim = indented;
        }
        out = out + heading.unwrap_or(line) + "\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_the_options_has_headings_and_examples_keep_their_columns() {
        let page = ".SH NAME\ntack\n.SH EXTRA\nWaits.\n\nExamples:\n  a      one\n\nExit status:\n  0  well\n.SH VERSION\n1\n";
        let expected = ".SH NAME\ntack\n.SH NOTES\nWaits.\n\n.SH EXAMPLES\n.nf\n  a      one\n\n.fi\n.SH EXIT STATUS\n\
                        .nf\n  0  well\n.fi\n.SH VERSION\n1\n";
        assert_eq!(laid_out(page), expected);
    }

    #[test]
    fn every_name_of_an_option_is_in_the_page_of_its_command() {
        let dir = tempfile::tempdir().unwrap();
        write_all(dir.path()).unwrap();
        let mut cli = Cli::command();
        cli.build();
        let mut parts = vec![cli];
        let mut others = 0;
        while let Some(part) = parts.pop() {
            if part.is_hide_set() || part.get_name() == "help" {
                continue;
            }
            let page = dir.path().join(Man::new(part.clone()).get_filename());
            let text = std::fs::read_to_string(page).unwrap().replace("\\-", "-");
            for arg in part.get_arguments().filter(|arg| !arg.is_hide_set()) {
                for name in arg.get_long_and_visible_aliases().unwrap_or_default() {
                    assert!(text.contains(&format!("--{name}")), "{}: --{name}", part.get_name());
                }
                others += arg.get_visible_aliases().map_or(0, |names| names.len());
            }
            parts.extend(part.get_subcommands().cloned());
        }
        assert!(others > 3, "{others}");
    }

    #[test]
    fn every_command_has_a_page_that_begins_examples_under_a_heading() {
        let dir = tempfile::tempdir().unwrap();
        write_all(dir.path()).unwrap();
        let pages: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert!(pages.len() > 20, "{pages:?}");
        for page in pages {
            let text = std::fs::read_to_string(page.path()).unwrap();
            assert!(!text.contains(BEHIND) && !text.contains("\nExample"), "{page:?}");
            let (begun, ended) = (text.matches("\n.nf\n").count(), text.matches("\n.fi\n").count());
            assert_eq!(begun, ended, "{page:?}");
        }
    }
}
