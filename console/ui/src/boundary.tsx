import { Component, type ReactNode } from 'react'

// ScreenBoundary shows why a screen failed, and leaves the others usable.
export class ScreenBoundary extends Component<{ title: string; children: ReactNode }, { error: Error | undefined }> {
  override state: { error: Error | undefined } = { error: undefined }

  static getDerivedStateFromError(error: Error) {
    return { error }
  }

  override render() {
    if (!this.state.error) return this.props.children
    return <div className="problem" role="alert"><b>{this.props.title}</b><span>{String(this.state.error)}</span></div>
  }
}
