//! Runs foreign work within a limit of memory and of time.
//!
//! A template can double a string some forty times in as many steps, in more ways than can be
//! listed (`~`, `join`, `replace`, captures, macros). So the limit is where all of them meet: in the
//! allocator. A thread that runs foreign work has an account; a request beyond its limit is never
//! answered. It can be neither refused (the standard library aborts on that) nor unwound (an
//! allocator must not), so the thread stays where it is, for good, with what it holds. Whoever
//! waits for it goes on with an error. The cost is one sleeping thread and at most the limit for
//! each refused run; callers do not run again what was refused once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::confined;

/// Deep enough for the nesting that minijinja allows; only touched pages count.
const STACK_BYTES: usize = 32 << 20;

#[derive(Clone, Copy)]
pub struct Limits {
    pub bytes: usize,
    pub time: Duration,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Running,
    Done,
    OutOfMemory,
}

/// Where the waiting side and the thread meet.
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    is_abandoned: AtomicBool,
}

impl Gate {
    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.changed.notify_all();
    }

    /// The state when it is no longer `Running`, or `Running` when `time` is over.
    fn wait(&self, time: Duration) -> State {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, time, |s| *s == State::Running);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Of the current thread; `gate` is null where nothing is counted.
struct Account {
    gate: Cell<*const Gate>,
    left: Cell<isize>,
}

thread_local! {
    static ACCOUNT: Account =
        const { Account { gate: Cell::new(std::ptr::null()), left: Cell::new(0) } };
}

/// Counts what the threads of `run`, and of `confined::run`, allocate; all others pass.
pub struct Allocator;

impl Allocator {
    fn charge(bytes: usize) {
        confined::charge(bytes);
        let exceeded = ACCOUNT.try_with(|account| {
            let gate = account.gate.get();
            if gate.is_null() {
                return None;
            }
            let left = account.left.get().saturating_sub_unsigned(bytes);
            account.left.set(left);
            // The thread's own Arc keeps the gate alive.
            let is_abandoned = unsafe { &*gate }.is_abandoned.load(Ordering::Relaxed);
            (left < 0 || is_abandoned).then_some(gate)
        });
        if let Ok(Some(gate)) = exceeded {
            unsafe { &*gate }.set(State::OutOfMemory);
            loop {
                thread::park();
            }
        }
    }

    fn credit(bytes: usize) {
        // A thread that is ending has no account any more.
        let _ = ACCOUNT.try_with(|account| {
            if !account.gate.get().is_null() {
                account.left.set(account.left.get().saturating_add_unsigned(bytes));
            }
        });
    }
}

unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::charge(layout.size());
        let memory = unsafe { System.alloc(layout) };
        confined::note(memory, layout);
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::charge(layout.size());
        let memory = unsafe { System.alloc_zeroed(layout) };
        confined::note(memory, layout);
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        Self::credit(layout.size());
        confined::forget(memory);
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // The old block is there until the new one is.
        Self::charge(new_size);
        let moved = unsafe { System.realloc(memory, layout, new_size) };
        if !moved.is_null() {
            Self::credit(layout.size());
            confined::forget(memory);
            let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
            confined::note(moved, new_layout);
        }
        moved
    }
}

fn open_account(gate: &Gate, bytes: usize) {
    ACCOUNT.with(|account| {
        account.left.set(isize::try_from(bytes).unwrap_or(isize::MAX));
        account.gate.set(gate);
    });
}

fn close_account() {
    ACCOUNT.with(|account| account.gate.set(std::ptr::null()));
}

/// What `work` gives, on a thread of its own; a panic goes on here. An error says which limit
/// was met; `work` never ends then, and what it holds is not freed.
pub fn run<T, F>(limits: Limits, work: F) -> Result<T, String>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let gate = Arc::new(Gate {
        state: Mutex::new(State::Running),
        changed: Condvar::new(),
        is_abandoned: AtomicBool::new(false),
    });
    let of_thread = Arc::clone(&gate);
    let body = move || {
        open_account(&of_thread, limits.bytes);
        let result = catch_unwind(AssertUnwindSafe(work));
        close_account();
        of_thread.set(State::Done);
        result
    };
    let thread = thread::Builder::new()
        .name("foreign work".to_string())
        .stack_size(STACK_BYTES)
        .spawn(body)
        .map_err(|error| format!("no thread can be started: {error}"))?;
    match gate.wait(limits.time) {
        State::Done => match thread.join().unwrap_or_else(Err) {
            Ok(value) => Ok(value),
            Err(panic) => resume_unwind(panic),
        },
        State::OutOfMemory => Err(format!("needs more than {} MiB of memory", limits.bytes >> 20)),
        State::Running => {
            gate.is_abandoned.store(true, Ordering::Relaxed);
            Err(format!("is not done after {:?}", limits.time))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bytes: 8 << 20, time: Duration::from_secs(60) };

    #[test]
    fn what_fits_is_done_however_often() {
        let sum = run(LIMITS, || (0..100).map(|_| vec![1u8; 1 << 20].len()).sum::<usize>());
        assert_eq!(sum, Ok(100 << 20));
        let grown = run(LIMITS, || {
            let mut bytes = Vec::new();
            (0..1 << 20).for_each(|i| bytes.push(i as u8));
            bytes.len()
        });
        assert_eq!(grown, Ok(1 << 20));
    }

    #[test]
    fn what_does_not_fit_is_refused_at_once_or_bit_by_bit() {
        let message = Err("needs more than 8 MiB of memory".to_string());
        assert_eq!(run(LIMITS, || vec![1u8; 9 << 20].len()), message);
        assert_eq!(run(LIMITS, || vec![0u8; 9 << 20].len()), message);
        let kept = || (0..1 << 20).map(|i: i32| i.to_string()).collect::<Vec<_>>().len();
        assert_eq!(run(LIMITS, kept), message);
        let mut doubled = "x".to_string();
        let doubling = move || {
            (0..64).for_each(|_| doubled = format!("{doubled}{doubled}"));
            doubled.len()
        };
        assert_eq!(run(LIMITS, doubling), message);
    }

    #[test]
    fn what_does_not_end_is_left_alone_and_stops_at_its_next_allocation() {
        let counter = Arc::new(Mutex::new(0u64));
        let inner = Arc::clone(&counter);
        let limits = Limits { bytes: 8 << 20, time: Duration::from_millis(50) };
        let endless = move || {
            loop {
                let boxed = Box::new(1u64);
                *inner.lock().unwrap_or_else(PoisonError::into_inner) +=
                    *std::hint::black_box(boxed);
            }
        };
        assert_eq!(run::<(), _>(limits, endless), Err("is not done after 50ms".to_string()));
        thread::sleep(Duration::from_millis(50));
        let before = *counter.lock().unwrap();
        thread::sleep(Duration::from_millis(50));
        assert_eq!(*counter.lock().unwrap(), before);
    }

    #[test]
    fn a_panic_goes_on_in_the_caller() {
        let caught = catch_unwind(|| run(LIMITS, || panic!("inside")));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"inside"));
    }
}
