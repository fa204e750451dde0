//! Small files that are there whole or not at all.

use std::{fs, io};

use camino::Utf8Path;
use kazma_domain::Entropy;
use rustix::fs::{Mode, OFlags};

/// 256 bits of randomness as text that is safe in a URL.
pub fn random_text(entropy: &dyn Entropy) -> String {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let mut bytes = [0_u8; 32];
    entropy.fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Puts a file of mode 0600 in place, whole or not at all.
///
/// # Errors
///
/// Says what the operating system says.
pub fn write_private(path: &Utf8Path, content: &str) -> io::Result<()> {
    write_file(path, content, Mode::RUSR | Mode::WUSR)
}

/// Puts a file that everybody may read in place, whole or not at all.
///
/// # Errors
///
/// Says what the operating system says.
pub fn write_public(path: &Utf8Path, content: &str) -> io::Result<()> {
    write_file(path, content, Mode::from_bits_retain(0o644))
}

fn write_file(path: &Utf8Path, content: &str, mode: Mode) -> io::Result<()> {
    use std::io::Write;
    let temporary = path.with_extension("new");
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(temporary.as_std_path(), flags, mode)?;
    let mut file = fs::File::from(file);
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(temporary, path)
}
