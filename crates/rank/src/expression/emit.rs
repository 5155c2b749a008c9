//! Writes the operations of a program, and keeps it within its limits.

use super::features::{Lookup, LOOKUPS_MAX};
use super::program::{Expression, One, Operation, Two, OPERATIONS_MAX, STACK_MAX};
use crate::error::QueryError;

/// Most parameters of an expression.
const PARAMETERS_MAX: usize = 64;

/// A program that grows.
#[derive(Default)]
pub(super) struct Emitter {
    operations: Vec<Operation>,
    lookups: Vec<Lookup>,
    parameters: Vec<String>,
    /// Values on the stack after the last operation.
    height: usize,
    /// No operation before this one may be folded: a jump leads here.
    foldable_from: usize,
}

/// A jump whose target is not known yet.
pub(super) struct OpenJump(usize);

impl Emitter {
    pub fn finish(self) -> Expression {
        assert_eq!(self.height, 1, "an expression leaves one value");
        let Emitter { operations, lookups, parameters, .. } = self;
        Expression { operations, lookups, parameters }
    }

    /// Adds an operation that puts a value on the stack.
    pub fn push(&mut self, at: usize, operation: Operation) -> Result<(), QueryError> {
        self.height += 1;
        if self.height > STACK_MAX {
            let what = format!("An expression needs at most {STACK_MAX} values at a time.");
            return Err(QueryError::too_large(at, what));
        }
        self.emit(at, operation)
    }

    /// Adds an operation that replaces the value on the stack.
    pub fn replace(&mut self, at: usize, operation: Operation) -> Result<(), QueryError> {
        self.emit(at, operation)
    }

    /// Adds a function of the last value; numbers are folded.
    pub fn one(&mut self, at: usize, function: One) -> Result<(), QueryError> {
        if let [.., Operation::Number(a)] = &mut self.operations[self.foldable_from..] {
            *a = function.apply(*a);
            return Ok(());
        }
        self.emit(at, Operation::One(function))
    }

    /// Adds a function of the last two values; numbers are folded.
    pub fn two(&mut self, at: usize, function: Two) -> Result<(), QueryError> {
        self.height -= 1;
        let foldable = &mut self.operations[self.foldable_from..];
        if let [.., Operation::Number(a), Operation::Number(b)] = foldable {
            *a = function.apply(*a, *b);
            self.operations.pop();
            return Ok(());
        }
        self.emit(at, Operation::Two(function))
    }

    /// Jumps, unless the last value is true.
    pub fn jump_unless(&mut self, at: usize) -> Result<OpenJump, QueryError> {
        self.emit(at, Operation::JumpUnless(0))?;
        self.height -= 1;
        Ok(OpenJump(self.operations.len() - 1))
    }

    /// Jumps over the other branch, which puts its value where this branch put one.
    pub fn jump(&mut self, at: usize) -> Result<OpenJump, QueryError> {
        self.emit(at, Operation::Jump(0))?;
        self.height -= 1;
        Ok(OpenJump(self.operations.len() - 1))
    }

    /// Lets a jump lead to the next operation.
    pub fn land(&mut self, jump: &OpenJump) {
        let target = self.operations.len() as u16;
        match &mut self.operations[jump.0] {
            Operation::Jump(to) | Operation::JumpUnless(to) => *to = target,
            _ => unreachable!("a jump was emitted there"),
        }
        self.foldable_from = self.operations.len();
    }

    /// The number of a lookup; equal ones share it.
    pub fn lookup(&mut self, at: usize, lookup: Lookup) -> Result<u8, QueryError> {
        if let Some(number) = self.lookups.iter().position(|one| *one == lookup) {
            return Ok(number as u8);
        }
        if self.lookups.len() == LOOKUPS_MAX {
            let what = format!("An expression asks for at most {LOOKUPS_MAX} attributes.");
            return Err(QueryError::too_large(at, what));
        }
        self.lookups.push(lookup);
        Ok((self.lookups.len() - 1) as u8)
    }

    /// The number of a parameter.
    pub fn parameter(&mut self, at: usize, name: &str) -> Result<u16, QueryError> {
        if let Some(number) = self.parameters.iter().position(|one| one == name) {
            return Ok(number as u16);
        }
        if self.parameters.len() == PARAMETERS_MAX {
            let what = format!("An expression has at most {PARAMETERS_MAX} parameters.");
            return Err(QueryError::too_large(at, what));
        }
        self.parameters.push(name.to_owned());
        Ok((self.parameters.len() - 1) as u16)
    }

    fn emit(&mut self, at: usize, operation: Operation) -> Result<(), QueryError> {
        if self.operations.len() == OPERATIONS_MAX {
            let what = format!("An expression has at most {OPERATIONS_MAX} operations.");
            return Err(QueryError::too_large(at, what));
        }
        self.operations.push(operation);
        Ok(())
    }
}
