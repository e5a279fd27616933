// Writes FILE.br beside each built file. The binary embeds those, and index.html.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'

const dist = new URL('../../dist/', import.meta.url).pathname

for (const name of readdirSync(dist, { recursive: true })) {
  const path = join(dist, name)
  if (!statSync(path).isFile() || path.endsWith('.br')) continue
  const text = readFileSync(path)
  const small = brotliCompressSync(text, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: text.length },
  })
  writeFileSync(path + '.br', small)
}
