//! Runs foreign work that can be stopped wherever it allocates, and takes back what it held.
//!
//! As in `bounded.rs` the limits are kept in the allocator, which can neither refuse nor unwind. Here
//! the work has a stack of its own and a ledger of its blocks: where a limit is met, the allocator
//! goes on with the stack of whoever started the work and never comes back; then both are freed.
//!
//! No destructor of stopped work runs. That is sound where it leaves nothing of what it allocates
//! where others find it (statics, thread locals, memory that was there before) and holds no lock of
//! others. Work is a `Fn` that borrows its inputs, so that these outlive it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use libc::{getcontext, makecontext, mmap, mprotect, munmap, setcontext, swapcontext, ucontext_t};

use crate::bounded::Limits;

/// Only touched pages count; the lowest one is a guard.
const STACK_BYTES: usize = 32 << 20;
const GUARD_BYTES: usize = 64 << 10;
/// What an entry of the ledger takes, about.
const ENTRY_BYTES: usize = 48;
/// As good as always a run that is out of time allocates within it.
const GRACE: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    Memory(usize),
    Time(Duration),
    Threads,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Limit::Memory(bytes) => write!(out, "needs more than {} MiB of memory", bytes >> 20),
            Limit::Time(time) => write!(out, "is not done after {time:?}"),
            Limit::Threads => write!(out, "no thread can be started"),
        }
    }
}

/// Addresses are as good as random once their low bits are gone.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("addresses are hashed as numbers");
    }
    fn write_usize(&mut self, address: usize) {
        self.0 = (address as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

type Ledger = HashMap<usize, Layout, BuildHasherDefault<AddressHasher>>;

/// Of one run, on its thread alone but for `is_abandoned`.
struct Run {
    left: Cell<isize>,
    ledger: UnsafeCell<Ledger>,
    host: UnsafeCell<MaybeUninit<ucontext_t>>,
    job: Cell<*mut c_void>,
    is_abandoned: Arc<AtomicBool>,
}

thread_local! {
    /// Null where nothing is counted.
    static RUN: Cell<*const Run> = const { Cell::new(std::ptr::null()) };
}

/// Whether this thread is in confined work just now.
pub fn is_confined() -> bool {
    RUN.try_with(|run| !run.get().is_null()).unwrap_or(false)
}

/// The run of this thread; meanwhile nothing is counted, so that the ledger itself may grow.
fn with_run(body: impl FnOnce(&Run)) {
    let _ = RUN.try_with(|current| {
        let run = current.replace(std::ptr::null());
        if !run.is_null() {
            body(unsafe { &*run });
            current.set(run);
        }
    });
}

/// Before a block is taken; does not return where a limit is met.
pub fn charge(bytes: usize) {
    let mut is_over = false;
    with_run(|run| {
        let left = run.left.get().saturating_sub_unsigned(bytes.saturating_add(ENTRY_BYTES));
        run.left.set(left);
        // A panic holds locks of the standard library until it is caught.
        is_over = (left < 0 || run.is_abandoned.load(Ordering::Relaxed)) && !thread::panicking();
    });
    if is_over {
        leave();
    }
}

/// Of a block that was taken; freeing none, where there is no memory, does nothing.
pub fn note(memory: *mut u8, layout: Layout) {
    with_run(|run| {
        unsafe { &mut *run.ledger.get() }.insert(memory as usize, layout);
    });
}

pub fn forget(memory: *mut u8) {
    with_run(|run| {
        // Others' blocks give no credit.
        if let Some(layout) = unsafe { &mut *run.ledger.get() }.remove(&(memory as usize)) {
            let bytes = layout.size().saturating_add(ENTRY_BYTES);
            run.left.set(run.left.get().saturating_add_unsigned(bytes));
        }
    });
}

fn leave() -> ! {
    let run = RUN.replace(std::ptr::null());
    unsafe { setcontext((*run).host.get().cast()) };
    std::process::abort(); // setcontext returns for no valid context
}

/// Memory for a stack, with a guard below.
struct Stack(*mut c_void);

impl Stack {
    fn new() -> Option<Self> {
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let base = mmap(std::ptr::null_mut(), STACK_BYTES, access, flags, -1, 0);
            if base == libc::MAP_FAILED {
                return None;
            }
            let stack = Stack(base);
            (mprotect(base, GUARD_BYTES, libc::PROT_NONE) == 0).then_some(stack)
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        unsafe { munmap(self.0, STACK_BYTES) };
    }
}

struct Job<'a, T, F> {
    work: &'a F,
    run: &'a Run,
    result: Option<thread::Result<T>>,
}

/// The first function on a stack of its own; its end goes back to the host.
extern "C" fn enter<T, F: Fn() -> T>() {
    let job = RUN.with(|run| unsafe { &mut *(*run.get()).job.get().cast::<Job<T, F>>() });
    let result = catch_unwind(AssertUnwindSafe(job.work));
    RUN.set(std::ptr::null());
    job.result = Some(result);
}

/// What `work` gives on a stack of its own; nothing where it met a limit, or got no stack.
fn on_own_stack<T, F: Fn() -> T>(
    bytes: usize,
    is_abandoned: Arc<AtomicBool>,
    work: &F,
) -> Option<thread::Result<T>> {
    let stack = Stack::new()?;
    let run = Run {
        left: Cell::new(isize::try_from(bytes).unwrap_or(isize::MAX)),
        ledger: UnsafeCell::default(),
        host: UnsafeCell::new(MaybeUninit::zeroed()),
        job: Cell::new(std::ptr::null_mut()),
        is_abandoned,
    };
    let mut job = Job { work, run: &run, result: None };
    run.job.set((&raw mut job).cast());
    unsafe {
        let mut own = MaybeUninit::<ucontext_t>::zeroed();
        getcontext(own.as_mut_ptr());
        let context = &mut *own.as_mut_ptr();
        context.uc_stack.ss_sp = stack.0;
        context.uc_stack.ss_size = STACK_BYTES;
        context.uc_link = run.host.get().cast();
        makecontext(own.as_mut_ptr(), enter::<T, F>, 0);
        RUN.set(&raw const run);
        swapcontext(run.host.get().cast(), own.as_ptr());
        RUN.set(std::ptr::null());
    }
    let result = job.result.take();
    if result.is_none() {
        for (memory, layout) in std::mem::take(unsafe { &mut *job.run.ledger.get() }) {
            unsafe { System.dealloc(memory as *mut u8, layout) };
        }
    }
    result
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Running,
    Done,
    Abandoned,
}

struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    is_abandoned: Arc<AtomicBool>,
}

/// Runs that nobody waits for any more and that have not ended yet.
static STRAYS: AtomicUsize = AtomicUsize::new(0);

pub fn strays() -> usize {
    STRAYS.load(Ordering::Relaxed)
}

impl Gate {
    fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Abandoned {
            STRAYS.fetch_sub(1, Ordering::Relaxed);
        }
        *state = State::Done;
        self.changed.notify_all();
    }

    /// Whether the run has ended; else it is abandoned.
    fn wait(&self, time: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, time, |s| *s == State::Running);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if *state == State::Running {
            *state = State::Abandoned;
            self.is_abandoned.store(true, Ordering::Relaxed);
            STRAYS.fetch_add(1, Ordering::Relaxed);
        }
        *state == State::Done
    }

    fn has_ended_after(&self, time: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, time, |s| *s != State::Done);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == State::Done
    }
}

/// What `work` gives, on a thread of its own; a panic goes on here. After an error nothing of the
/// work is left, or, where that does not allocate, will be as soon as it does.
pub fn run<T, F>(limits: Limits, work: F) -> Result<T, Limit>
where
    T: Send + 'static,
    F: Fn() -> T + Send + 'static,
{
    let gate = Arc::new(Gate {
        state: Mutex::new(State::Running),
        changed: Condvar::new(),
        is_abandoned: Arc::default(),
    });
    let of_thread = Arc::clone(&gate);
    let body = move || {
        let result = on_own_stack(limits.bytes, Arc::clone(&of_thread.is_abandoned), &work);
        drop(work);
        of_thread.end();
        result
    };
    let name = "confined work".to_string();
    let Ok(thread) = thread::Builder::new().name(name).spawn(body) else {
        return Err(Limit::Threads);
    };
    let is_in_time = gate.wait(limits.time);
    if !is_in_time && !gate.has_ended_after(GRACE) {
        return Err(Limit::Time(limits.time));
    }
    let result = thread.join();
    if !is_in_time {
        return Err(Limit::Time(limits.time));
    }
    match result.unwrap_or_else(|panic| Some(Err(panic))) {
        Some(Ok(value)) => Ok(value),
        Some(Err(panic)) => resume_unwind(panic),
        None => Err(Limit::Memory(limits.bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bytes: 8 << 20, time: Duration::from_secs(60) };

    fn resident_mebibytes() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() >> 8
    }

    #[test]
    fn what_fits_is_done_and_stays() {
        let kept = run(LIMITS, || (0..1000).map(|i: i32| i.to_string()).collect::<Vec<_>>());
        let kept = kept.unwrap();
        assert_eq!((kept.len(), kept[999].as_str()), (1000, "999"));
        let sum = run(LIMITS, || (0..100).map(|_| vec![1u8; 1 << 20].len()).sum::<usize>());
        assert_eq!(sum, Ok(100 << 20));
    }

    #[test]
    fn refused_runs_leave_nothing() {
        let limits = Limits { bytes: 64 << 20, time: Duration::from_secs(60) };
        let given = Arc::new(vec![1u8; 1 << 18]);
        let borrowed = Arc::clone(&given);
        let growing = move || (0..1 << 30).map(|_| borrowed.to_vec()).collect::<Vec<_>>().len();
        let before = resident_mebibytes();
        for _ in 0..200 {
            assert_eq!(run(limits, growing.clone()), Err(Limit::Memory(64 << 20)));
        }
        // They held 12 800 MiB; tests beside this one hold some, too.
        assert!(resident_mebibytes() < before + 4000);
        drop(growing);
        assert_eq!(Arc::strong_count(&given), 1);
    }

    #[test]
    fn one_large_block_and_one_that_grows_are_refused() {
        let memory = Err(Limit::Memory(8 << 20));
        assert_eq!(run(LIMITS, || vec![1u8; 9 << 20].len()), memory);
        assert_eq!(run(LIMITS, || vec![0u8; 9 << 20].len()), memory);
        let doubling = || {
            let mut text = "x".to_string();
            (0..64).for_each(|_| text = format!("{text}{text}"));
            text.len()
        };
        assert_eq!(run(LIMITS, doubling), memory);
        let filling = || {
            let mut bytes = Vec::new();
            (0..1 << 30).for_each(|i| bytes.push(i as u8));
            bytes.len()
        };
        assert_eq!(run(LIMITS, filling), memory);
        let many = || (0..1 << 30).map(|i: i32| i.to_string()).collect::<Vec<_>>().len();
        assert_eq!(run(LIMITS, many), memory);
    }

    #[test]
    fn what_does_not_end_is_stopped_at_its_next_allocation() {
        let limits = Limits { bytes: 8 << 20, time: Duration::from_millis(20) };
        let counter = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let inner = Arc::clone(&counter);
            let endless = move || {
                loop {
                    inner.fetch_add(*std::hint::black_box(Box::new(1)), Ordering::Relaxed);
                }
            };
            assert_eq!(run::<(), _>(limits, endless), Err(Limit::Time(limits.time)));
        }
        assert_eq!((Arc::strong_count(&counter), strays()), (1, 0));
    }

    #[test]
    fn a_panic_goes_on_in_the_caller_and_deep_work_has_room() {
        let caught = catch_unwind(|| run(LIMITS, || panic!("inside")));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"inside"));
        fn depth(left: u32) -> u32 {
            let block = std::hint::black_box([left; 64]);
            if left == 0 { 0 } else { 1 + depth(block[63] - 1) }
        }
        assert_eq!(run(LIMITS, || depth(20_000)), Ok(20_000));
    }

    #[test]
    fn runs_side_by_side() {
        let threads: Vec<_> = (0..8)
            .map(|i: usize| {
                thread::spawn(move || {
                    for round in 0..50 {
                        let fits = (i + round).is_multiple_of(2);
                        let size = if fits { 1 << 20 } else { 9 << 20 };
                        assert_eq!(run(LIMITS, move || vec![7u8; size].len()).is_ok(), fits);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
