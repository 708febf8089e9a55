//! A terminal for a command that requires one.

use std::fs::File;
use std::os::fd::FromRawFd;

/// Both ends of a new terminal of this many columns: ours, and that of the command.
pub fn terminal(columns: u16) -> (File, File) {
    let size = libc::winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (mut ours, mut its) = (0, 0);
    let (name, settings) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: the pointers are valid or null; on success both descriptors are open and ours.
    unsafe {
        assert_eq!(libc::openpty(&mut ours, &mut its, name, settings, &size), 0);
        (File::from_raw_fd(ours), File::from_raw_fd(its))
    }
}
