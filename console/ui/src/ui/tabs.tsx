import type { ReactNode } from 'react'
import { Tab, TabList, TabPanel, Tabs as AriaTabs } from 'react-aria-components'
import { setParams, useRoute } from '../route.tsx'

export interface TabSpec {
  id: string
  title: string
  n?: number
  body: () => ReactNode
}

// Tabs keeps which tab is open in the address.
export function Tabs({ label, tabs, name = 'tab' }: { label: string; tabs: readonly TabSpec[]; name?: string }) {
  const { params } = useRoute()
  const open = tabs.find((x) => x.id === params[name]) ?? tabs[0]
  if (!open) return null
  return (
    <AriaTabs className="tabs" selectedKey={open.id} onSelectionChange={(id) => setParams({ [name]: String(id) })}>
      <TabList aria-label={label} className="tab-list">
        {tabs.map((x) => <Tab key={x.id} id={x.id} className="tab">{x.title}{x.n === undefined ? null : <span className="num tab-count">{x.n}</span>}</Tab>)}
      </TabList>
      <TabPanel key={open.id} id={open.id} className="tab-panel">{open.body()}</TabPanel>
    </AriaTabs>
  )
}
