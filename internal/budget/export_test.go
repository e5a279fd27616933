package budget

// Excess returns the hold that may exceed the budget.
func (b *Budget) Excess() *Hold { return b.excess }

// Waiting returns how many holds wait.
func (b *Budget) Waiting() int { return len(b.waiting) }
