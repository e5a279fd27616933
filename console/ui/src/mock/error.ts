// MockError is an error with one of tandem's codes.
export class MockError extends Error {
  constructor(readonly code: string, message: string) {
    super(message)
  }
}
