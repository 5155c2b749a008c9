//! Stores as their users see them: every store passes the same suite; blocks know their place.

mod blocks;
mod cache;
mod faults;
mod files;
