import fs from 'node:fs'
import path from 'node:path'
import type { DefaultTheme } from 'vitepress'

// sidebarOf returns the sidebar of a language, '' for English. The README.md of the language
// lists the parts, and the README.md of each part its pages, in tables. A page that is the
// README.md of a folder has the pages that it lists below it.
export function sidebarOf(docs: string, language: string): DefaultTheme.SidebarItem[] {
  return listed(path.join(docs, language), docs, true)
}

function listed(folder: string, docs: string, open: boolean): DefaultTheme.SidebarItem[] {
  const items: DefaultTheme.SidebarItem[] = []
  const seen = new Set<string>()
  for (const [text, file] of linksInTables(path.join(folder, 'README.md'))) {
    if (!file.startsWith(folder + path.sep) || seen.has(file)) continue // of another folder, or listed twice
    seen.add(file)
    const page = '/' + path.relative(docs, file).split(path.sep).join('/')
    const item: DefaultTheme.SidebarItem = { text, link: page.replace(/README\.md$/, '').replace(/\.md$/, '') }
    if (path.basename(file) === 'README.md') {
      const below = listed(path.dirname(file), docs, false)
      if (below.length > 0) Object.assign(item, { items: below, collapsed: !open })
    }
    items.push(item)
  }
  return items
}

function* linksInTables(file: string): Generator<[text: string, file: string]> {
  for (const line of fs.readFileSync(file, 'utf8').split('\n')) {
    if (!line.startsWith('|')) continue
    for (const [, text, target] of line.matchAll(/\[([^\]]+)\]\(([^)#\s]+\.md)\)/g)) {
      yield [text.replaceAll('`', ''), path.resolve(path.dirname(file), target)]
    }
  }
}
