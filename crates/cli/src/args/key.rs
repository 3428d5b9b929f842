//! `tack key`.

use clap::Args;

const AFTER: &str = "\
The key is made on first use and kept in the configuration directory; both sides of a connection
show theirs. On the machine that receives, a line with it lets you in:

Examples:
  tack key | ssh nas 'cat >> .config/tack/authorized_keys'
  tack recv --authorized-keys friends.txt";

/// Print this user's key, as a line for another machine's file of authorized keys.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct KeyArgs {}
