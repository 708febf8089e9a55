//! Child processes that do not outlive this one, however it ends.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

type Job = (Command, mpsc::Sender<io::Result<Child>>);

/// The kernel kills a child when the *thread* that forked it ends, so one thread that never ends forks all of them.
static KEEPER: LazyLock<Mutex<mpsc::Sender<Job>>> = LazyLock::new(|| {
    let (jobs, inbox) = mpsc::channel::<Job>();
    let keeper = thread::Builder::new().name("child-keeper".to_owned());
    let started = keeper.spawn(move || {
        for (mut command, reply) in inbox {
            detach(&mut command);
            tie_to_parent(&mut command);
            // Without a caller, the child runs until this process ends.
            let _ = reply.send(command.spawn());
        }
    });
    // Without the thread the channel is closed, which `spawn` reports.
    drop(started);
    Mutex::new(jobs)
});

/// Starts `command`; the kernel kills it when this process ends, even by `SIGKILL` (on Linux).
/// Ctrl-C in the terminal does not reach it.
///
/// # Errors
/// As for [`Command::spawn`].
pub fn spawn(command: Command) -> io::Result<Child> {
    let (reply, spawned) = mpsc::channel();
    let keeper = KEEPER.lock();
    let no_keeper =
        |_| io::Error::other("the thread that starts child processes could not be started");
    keeper
        .send((command, reply))
        .map_err(|_| no_keeper(mpsc::RecvError))?;
    drop(keeper);
    spawned.recv().map_err(no_keeper)?
}

/// A child process that is stopped when it is dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// How long a process may take to end by itself.
    const STOP_LIMIT: Duration = Duration::from_secs(5);

    /// Starts `command` as [`spawn`] does.
    ///
    /// # Errors
    /// As for [`spawn`]; a program that is not found is named.
    pub fn start(command: Command) -> io::Result<Self> {
        let program = command.get_program().to_owned();
        spawn(command)
            .map(Self)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    io::Error::other(format!("{} is not installed", program.display()))
                }
                _ => error,
            })
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Kills the process at once.
    pub fn kill(mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Waits until the process has ended.
    pub async fn exited(&mut self) -> ExitStatus {
        loop {
            if let Ok(Some(status)) = self.0.try_wait() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Process {
    /// Asks it to end (`SIGTERM`), and kills it after [`Process::STOP_LIMIT`].
    #[expect(
        unsafe_code,
        reason = "the standard library sends no signal but SIGKILL"
    )]
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        // SAFETY: the child is ours and has not been waited for, so the id is still its own.
        unsafe { libc::kill(self.id() as libc::pid_t, libc::SIGTERM) };
        let deadline = Instant::now() + Self::STOP_LIMIT;
        while Instant::now() < deadline {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Puts the child into a process group of its own, so that the terminal's signals reach only this process.
fn detach(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    command.process_group(0);
}

#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "only the child itself can ask for a signal at its parent's death"
)]
fn tie_to_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    let parent = std::process::id();
    let tie = move || {
        // SAFETY: both calls are async-signal-safe and touch no memory of this process.
        let (tied, parent_now) = unsafe {
            let tied = libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            (tied, libc::getppid())
        };
        if tied != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have ended before the request was made.
        if parent_now as u32 != parent {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        Ok(())
    };
    // SAFETY: `tie` neither allocates nor takes a lock; it runs between fork and exec.
    unsafe { command.pre_exec(tie) };
}

#[cfg(not(target_os = "linux"))]
fn tie_to_parent(_command: &mut Command) {}
