import { expect, it } from 'vitest'
import type { Edit, Service, Services } from '../src/api/types.ts'
import { Mock, MockError } from '../src/mock/server.ts'

const list = 'etcd://10.0.0.5:2379/shop/Cart'

it('has 2,000 services and 20,000 instances', () => {
  const services = new Mock().answer('Services', {}) as Services
  expect(services.services).toHaveLength(2000)
  expect(new Set(services.services?.map((s) => s.list)).size).toBe(2000)
  const instances = services.services?.reduce((sum, s) => sum + Object.values(s.instances ?? {}).reduce((a, b) => a + b, 0), 0) ?? 0
  expect(instances).toBeGreaterThanOrEqual(20_000)
})

it('changes, and refuses to empty a list', () => {
  const mock = new Mock(20, 200)
  const read = () => mock.answer('Service', { list, service: 'Cart' }) as Service
  const ids = read().rows?.map((r) => r.id) ?? []
  const set = ids.map((instance) => ({ instance, state: 'disabled' }))
  expect((mock.answer('Edit', { list, set, why: '', dryRun: true }) as Edit).empties).toBe(true)
  expect(() => mock.answer('Edit', { list, set, why: 'x' })).toThrow(MockError)
  mock.answer('Edit', { list, set, why: 'x', confirm: list })
  expect(read().rows?.every((r) => r.state === 'disabled')).toBe(true)
  mock.answer('Edit', { list, set: [], clear: ids, why: 'undo' })
  expect(read().rows?.some((r) => r.state === 'disabled')).toBe(false)
})
