// The site of docs/, built by "make site". Every page is a Markdown file there, and the
// sidebar comes from the tables of the folders' README.md.
import type { DefaultTheme, UserConfig } from 'vitepress'
import path from 'node:path'

import { githubSlug, languagesOfFences, linksOfRepository } from './markdown'
import { sidebarOf } from './sidebar'
import { tokenize, zhSearch } from './search'

// site/build.sh copies docs/ and this folder beside the packages of npm, and builds there.
const docs = path.resolve('pages')
const repository = 'https://github.com/tandem-rpc/tandem'

// Pages load nothing from other origins, and browsers hold them to it. VitePress has small
// inline scripts and styles, and evaluates the text of functions in this file, such as tokenize.
const policy = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
].join('; ')

const config: UserConfig<DefaultTheme.Config> = {
  srcDir: docs,
  outDir: process.env.SITE_OUT,
  base: process.env.SITE_BASE ?? '/',
  rewrites: (page) => page.replace(/(^|\/)README\.md$/, '$1index.md'),
  title: 'tandem',
  head: [
    ['meta', { 'http-equiv': 'Content-Security-Policy', content: policy }],
    ['link', { rel: 'icon', href: 'data:,' }], // none; without this, browsers ask for one
  ],
  markdown: {
    anchor: { slugify: githubSlug },
    config: (md) => {
      linksOfRepository(md, docs, process.env.SITE_ROOT!, repository)
      languagesOfFences(md)
    },
  },
  locales: {
    root: {
      label: 'English',
      lang: 'en',
      themeConfig: { sidebar: sidebarOf(docs, '') },
    },
    zh: {
      label: '简体中文',
      lang: 'zh-CN',
      link: '/zh/',
      themeConfig: {
        sidebar: sidebarOf(docs, 'zh'),
        outline: { label: '本页内容' },
        docFooter: { prev: '上一页', next: '下一页' },
        darkModeSwitchLabel: '主题',
        sidebarMenuLabel: '目录',
        returnToTopLabel: '回到顶部',
        langMenuLabel: '语言',
      },
    },
  },
  themeConfig: {
    // Not social links: their icons would be fetched from another origin.
    nav: [{ text: 'GitHub', link: repository }],
    // A page may exist in one language only.
    i18nRouting: false,
    outline: 'deep',
    search: {
      provider: 'local',
      options: {
        // All words must be found: Chinese has many short ones.
        miniSearch: { options: { tokenize }, searchOptions: { combineWith: 'AND' } },
        locales: { zh: { translations: zhSearch } },
      },
    },
  },
}

export default config
