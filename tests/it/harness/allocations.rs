//! The allocator of the tests: that of the service, which also counts what a thread allocates while the thread asks for it.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// `None` while nobody counts.
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
}

struct Counting;

fn count() {
    // Fails while the thread ends.
    let _ = COUNT.try_with(|count| count.set(count.get().map(|count| count + 1)));
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    /// Growing is an allocation too.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { MiMalloc.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { MiMalloc.dealloc(block, layout) }
    }
}

/// The number of allocations that this thread makes while `work` runs, other tasks of the thread included.
pub async fn allocations_during(work: impl Future<Output = ()>) -> u64 {
    COUNT.set(Some(0));
    work.await;
    COUNT.take().unwrap_or_default()
}
