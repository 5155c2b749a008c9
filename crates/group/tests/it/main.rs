//! Tests of the store of groups through its public interface.

mod checkpoint;
mod contract;
mod crash;
mod damage;
mod inspect;
mod isolation;
mod model;
mod ranked;
mod recovery;
mod rows;
mod texts;
mod writes;
