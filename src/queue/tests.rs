//! The queue's behaviour, by the rules that kube-scheduler follows.

mod kit;
mod leaving;
mod moving;
mod random;
mod trying;
