import fs from 'node:fs'
import path from 'node:path'

// githubSlug makes the fragment of a heading as GitHub does, so that a link works in both places.
export function githubSlug(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}

// linksOfRepository lets links to files that are not pages, such as sources, lead to the
// repository, and links to a folder's README.md to its index page. docs is where the pages are, a copy of docs/ in
// root, the clone.
export function linksOfRepository(md: any, docs: string, root: string, repository: string): void {
  md.core.ruler.push('links-of-repository', (state: any) => {
    for (const block of state.tokens) {
      for (const token of block.children ?? []) {
        if (token.type === 'link_open') {
          token.attrSet('href', address(token.attrGet('href'), state.env.realPath ?? state.env.path))
        }
      }
    }
  })

  function address(href: string, page: string): string {
    if (/^[a-z]+:|^#/.test(href)) return href
    const [file, fragment] = href.split('#')
    const target = path.resolve(path.dirname(page), decodeURIComponent(file))
    const inside = target.startsWith(docs + path.sep)
    if (inside && target.endsWith('.md')) return href.replace(/(^|\/)README\.md/, '$1index.md')
    const name = path.posix.join('docs', path.relative(docs, target).split(path.sep).join('/'))
    const kind = fs.statSync(path.join(root, name)).isDirectory() ? 'tree' : 'blob'
    return `${repository}/${kind}/main/${name}` + (fragment ? '#' + fragment : '')
  }
}

// languagesOfFences leaves of "go fragment" the language, and "hex" without colors.
export function languagesOfFences(md: any): void {
  md.core.ruler.push('languages-of-fences', (state: any) => {
    for (const token of state.tokens) {
      if (token.type !== 'fence') continue
      const [language] = token.info.split(' ')
      token.info = language === 'hex' ? 'txt' : language
    }
  })
}
