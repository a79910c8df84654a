//! The operator's one binary.

use std::process::ExitCode;

// glibc keeps the memory of a relist; jemalloc returns it to the system (.cargo/config.toml sets when). A heap profiler wants to see
// each allocation.
#[cfg(not(heap_profile))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cloud_server_operator::operator::main()
}
