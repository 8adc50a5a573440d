//! The end-to-end suite on the embedded API server.

use supercargo_loadtest::e2e::Backend;

supercargo_loadtest::e2e_tests!(Backend::Embedded);
