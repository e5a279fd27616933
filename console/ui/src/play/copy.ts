import type { CallRequest, MethodSchema, PlayInstance } from '../api/types.ts'
import { compact, isList, parse, print } from './json.ts'

export const own = 'tandem' // the name of tandem's own protocol

export function isStream(m: MethodSchema | undefined): boolean {
  return m !== undefined && m.kind !== 'unary'
}

// quote makes a word of a shell of any text.
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}

// targetOf is where a command calls: the list, or an instance by its address if one is chosen, or if
// the protocol is not tandem's own.
export function targetOf(r: CallRequest, instances: readonly PlayInstance[]): string | undefined {
  const protocol = r.protocol || own
  if (!r.instance && protocol === own) return r.list
  const of = r.instance ? instances.find((i) => i.id === r.instance) : instances.find((i) => i.targets?.[protocol] && i.state === 'enabled')
  return of?.targets?.[protocol]
}

function seconds(r: CallRequest): number {
  return (r.timeout ?? 0) / 1e9
}

// asCommand is the call as the command tandem; undefined if the address is not known.
export function asCommand(r: CallRequest, m: MethodSchema | undefined, instances: readonly PlayInstance[]): string | undefined {
  const target = targetOf(r, instances)
  if (target === undefined) return undefined
  const words = ['tandem', 'call']
  if (isStream(m)) words.push('--stream')
  if (r.several && !isStream(m) && r.protocol !== 'grpc' && r.protocol !== 'connect') words.push('--several')
  if (r.timeout) words.push('--timeout', `${seconds(r)}s`)
  for (const p of r.metadata ?? []) words.push('--metadata', quote(`${p.key}=${p.value}`))
  words.push('--', quote(target), quote(r.method))
  if (r.arguments) words.push(quote(compact(r.arguments)))
  return words.join(' ')
}

// asCurl is the call by HTTP, which servers with package protocol/web answer on the same port. curl
// can't make streams.
export function asCurl(r: CallRequest, m: MethodSchema | undefined, instances: readonly PlayInstance[]): string | undefined {
  const wanted = r.instance ? instances.filter((i) => i.id === r.instance) : instances.filter((i) => i.state === 'enabled')
  const address = wanted.map((i) => i.targets?.['connect'] ?? i.targets?.[own]).find((a) => a !== undefined && !a.startsWith('unix:'))?.replace(/^\w+:\/\//, '')
  if (address === undefined || isStream(m)) return undefined
  const dot = r.method.lastIndexOf('.')
  const path = dot > 0 ? r.method.slice(0, dot) + '/' + r.method.slice(dot + 1) : r.method
  const words = ['curl', '-sS']
  if (r.timeout) words.push('--max-time', String(seconds(r)))
  for (const p of r.metadata ?? []) words.push('-H', quote(`${p.key}: ${p.value}`))
  words.push('-H', quote('Content-Type: application/json'), '--data-raw', quote(r.arguments ? compact(r.arguments) : r.several ? '{}' : 'null'))
  words.push(quote(`http://${address}/${path.split('/').map(encodeURIComponent).join('/')}`))
  return words.join(' ')
}

function literal(text: string): string {
  return text.includes('`') || text.includes('\r') ? JSON.stringify(text) : '`' + text + '`'
}

function resultsOf(m: MethodSchema | undefined): number {
  const s = m?.response as { prefixItems?: unknown[]; maxProperties?: number } | undefined
  return s?.prefixItems?.length ?? (s?.maxProperties === 0 ? 0 : 1)
}

function goArguments(r: CallRequest): string {
  if (!r.arguments) return r.several ? 'tandem.Args{}' : 'nil'
  if (!r.several || r.protocol === 'grpc' || r.protocol === 'connect') return `json.RawMessage(${literal(compact(r.arguments))})`
  const list = parse(r.arguments)
  return 'tandem.Args{' + (isList(list) ? list : []).map((v) => `json.RawMessage(${literal(print(v, false))})`).join(', ') + '}'
}

const registries = ['consul', 'etcd', 'file', 'mdns', 'nacos', 'redis', 'zookeeper']

// asGo is the call as a program.
export function asGo(r: CallRequest, m: MethodSchema | undefined, instances: readonly PlayInstance[]): string | undefined {
  const target = targetOf(r, instances)
  if (target === undefined) return undefined
  const scheme = /^(\w+)/.exec(target)?.[1] ?? ''
  const imports = ['context', 'fmt', 'log']
  const modules = ['github.com/tandem-rpc/tandem/client', 'github.com/tandem-rpc/tandem/codec']
  const dial = [JSON.stringify(target)]
  if (registries.includes(scheme)) {
    modules.push('github.com/tandem-rpc/tandem/registry/' + scheme)
    dial.push(`client.WithResolver(${JSON.stringify(scheme)}, ${scheme}.Resolver())`)
  }
  if ((r.protocol || own) !== own) {
    modules.push('github.com/tandem-rpc/tandem/protocol/all')
    dial.push('client.WithProtocols(all.Clients()...)')
  }
  dial.push('client.WithCodec(codec.JSON())')
  const options = ['ctx', JSON.stringify(r.method)]
  const after = (r.metadata ?? []).map((p) => `client.Metadata(${JSON.stringify(p.key)}, ${JSON.stringify(p.value)})`)
  if (r.timeout) {
    imports.push('time')
    after.unshift(`client.Timeout(${r.timeout / 1e6}*time.Millisecond)`)
  }
  const body = isStream(m) ? goStream(r, [...options, ...after]) : goCall(r, m, options, after)
  const text = body.join('\n')
  if (text.includes('json.')) imports.push('encoding/json')
  if (text.includes('errors.')) imports.push('errors')
  if (text.includes('io.')) imports.push('io')
  if (/\btandem\./.test(text)) modules.push('github.com/tandem-rpc/tandem')
  const list = (names: string[]) => names.sort().map((n) => `\t"${n}"`).join('\n')
  return `package main

import (
${list(imports)}

${list(modules)}
)

func main() {
	c, err := client.Dial(${dial.join(', ')})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
${body.map((l) => (l === '' ? '' : '\t' + l)).join('\n')}
}
`
}

function goCall(r: CallRequest, m: MethodSchema | undefined, options: string[], after: string[]): string[] {
  const fail = ['\tlog.Fatal(err)', '}']
  const packed = r.protocol !== 'grpc' && r.protocol !== 'connect'
  const n = packed ? resultsOf(m) : 1
  if (n === 0) return [`if err := c.Call(${[...options, goArguments(r), 'nil', ...after].join(', ')}); err != nil {`, ...fail, 'fmt.Println("done")']
  if (n === 1) return ['var reply json.RawMessage', `if err := c.Call(${[...options, goArguments(r), '&reply', ...after].join(', ')}); err != nil {`, ...fail, 'fmt.Println(string(reply))']
  const names = Array.from({ length: n }, (_, i) => `&reply[${i}]`)
  return [`var reply [${n}]json.RawMessage`, `if err := c.Call(${[...options, goArguments(r), `tandem.Results{${names.join(', ')}}`, ...after].join(', ')}); err != nil {`, ...fail, 'for _, r := range reply {', '\tfmt.Println(string(r))', '}']
}

function goStream(r: CallRequest, options: string[]): string[] {
  return [
    `s, err := c.OpenStream(${options.join(', ')})`, 'if err != nil {', '\tlog.Fatal(err)', '}', 'defer s.Close()',
    ...(r.arguments ? [`if err := s.SendMsg(json.RawMessage(${literal(compact(r.arguments))})); err != nil {`, '\tlog.Fatal(err)', '}'] : []),
    'if err := s.CloseSend(); err != nil {', '\tlog.Fatal(err)', '}',
    'for {', '\tvar message json.RawMessage', '\terr := s.RecvMsg(&message)', '\tif errors.Is(err, io.EOF) {', '\t\tbreak', '\t}', '\tif err != nil {', '\t\tlog.Fatal(err)', '\t}', '\tfmt.Println(string(message))', '}',
  ]
}
