//! The operator's one binary.

use std::process::ExitCode;

// glibc keeps what a relist needed for a moment; jemalloc gives it back (.cargo/config.toml says when). A heap profiler wants to see
// each allocation.
#[cfg(not(heap_profile))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cloud_server_operator::operator::main()
}
