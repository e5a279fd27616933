// tokenize splits a text into words for the search, Chinese with the dictionary of
// Intl.Segmenter. It runs where the index is made and, as its source text, in the browser: it may
// use nothing from outside.
export function tokenize(text: string): string[] {
  const segmenter = new Intl.Segmenter('zh', { granularity: 'word' })
  const words: string[] = []
  for (const part of text.split(/[\s\p{P}\p{S}]+/u)) {
    if (!/\p{Script=Han}/u.test(part)) {
      if (part !== '') words.push(part)
      continue
    }
    for (const { segment, isWordLike } of segmenter.segment(part)) {
      if (isWordLike) words.push(segment)
    }
  }
  return words
}

export const zhSearch = {
  button: { buttonText: '搜索', buttonAriaLabel: '搜索' },
  modal: {
    displayDetails: '显示详情',
    resetButtonTitle: '清除',
    backButtonTitle: '关闭',
    noResultsText: '没有找到',
    footer: { selectText: '选择', navigateText: '移动', closeText: '关闭' },
  },
}
