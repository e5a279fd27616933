import { setParams, useRoute } from '../route.tsx'

// FilterField is a field whose text is in the address.
export function FilterField({ label, hint, name = 'q' }: { label: string; hint: string; name?: string }) {
  const { params } = useRoute()
  return (
    <label className="filter">
      <span className="hidden">{label}</span>
      <input type="search" placeholder={`${label}  ${hint}`} value={params[name] ?? ''} onChange={(event) => setParams({ [name]: event.target.value })} spellCheck={false} autoComplete="off" />
    </label>
  )
}
