import { memo } from 'react'

const width = 96
const height = 20

// sparkPath is a line through values, drawn from 0 at the bottom to the largest at the top.
export function sparkPath(values: readonly number[]): string {
  if (values.length < 2) return ''
  const max = Math.max(1, ...values)
  const dx = width / (values.length - 1)
  let path = ''
  values.forEach((v, i) => {
    path += `${i === 0 ? 'M' : 'L'}${(i * dx).toFixed(1)} ${(height - 1 - (v / max) * (height - 3)).toFixed(1)}`
  })
  return path
}

// Spark is a small line without axes. Its figures are in the columns beside it.
export const Spark = memo(function Spark({ values }: { values: readonly number[] | null | undefined }) {
  if (!values || values.length < 2) return null
  return (
    <svg className="spark" width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      <path d={sparkPath(values)} />
    </svg>
  )
})
