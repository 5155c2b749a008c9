//! Ranking over whole groups, against brute force.

mod answers;
mod expressions;
mod garbage;
mod groups;
mod mail;
mod text;
