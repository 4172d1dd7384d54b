// The players of transactions, on any device: their run_op() is run_anywhere().
#include "anywhere.hpp"

#define run_op run_anywhere
#include "kit/transactions.cpp"
