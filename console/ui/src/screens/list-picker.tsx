import { useMemo, useState } from 'react'
import { usePolled } from '../api/use.ts'
import { useT } from '../i18n/index.tsx'
import { setParams, useRoute } from '../route.tsx'

interface Props {
  label: string
  name: string // parameter of the address
  of: 'list' | 'service'
}

// Picker is a field with the names of lists or services as suggestions.
export function Picker({ label, name, of }: Props) {
  const { t } = useT()
  const { params } = useRoute()
  const services = usePolled('Services', {}, 0)
  const [text, setText] = useState(params[name] ?? '')
  const [shown, setShown] = useState(params[name])
  if (shown !== params[name]) {
    setShown(params[name])
    setText(params[name] ?? '')
  }
  const names = useMemo(() => [...new Set((services.value?.services ?? []).map((s) => (of === 'list' ? s.list : s.service)))], [services.value, of])
  // A list of thousands of suggestions is slow in browsers.
  const some = useMemo(() => names.filter((n) => n.toLowerCase().includes(text.toLowerCase())).slice(0, 40), [names, text])
  return (
    <form className="picker" onSubmit={(event) => { event.preventDefault(); setParams({ [name]: text.trim() }) }}>
      <label className="filter"><span className="hidden">{label}</span>
        <input list={'names-of-' + name} placeholder={label} value={text} onChange={(event) => setText(event.target.value)} spellCheck={false} autoComplete="off" />
      </label>
      <datalist id={'names-of-' + name}>{some.map((n) => <option key={n} value={n} />)}</datalist>
      <button type="submit" className="button">{t('policies.open')}</button>
    </form>
  )
}
