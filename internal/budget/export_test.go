package budget

// Excess returns the hold that may exceed the budget.
func (b *Budget) Excess() *Hold { return b.excess }

// Waiting returns how many holds wait.
func (b *Budget) Waiting() int { return len(b.waiting) }

// Early returns how many bytes arrived before there was room, and how many bytes refused holds
// still have.
func (b *Budget) Early() (early, refusedBytes int64) { return b.early, b.refusedBytes }
