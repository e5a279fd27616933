// Types of console/api.go, and of what it contains of packages admin, client, override and tandem.
// Durations are nanoseconds, times RFC 3339. A list or map of Go may be null.

export type List<T> = readonly T[] | null
export type Counts = Readonly<Record<string, number>> | null
export type Nanos = number
export type Time = string

export type Role = 'viewer' | 'developer' | 'operator' | 'administrator'

export interface Session {
  name: string
  role: Role | string
  readOnly: boolean
  sources: List<Source>
  version: string
  traceURL?: string
}

export interface Source {
  name: string
  lists: number
  error?: string
  at: Time
  documents: boolean
}

export interface Second {
  calls: number
  failed: number
}

export interface Overview {
  services: number
  instances: Counts
  rate: number
  errorRate: number
  answering: number
  silent: number
  versions: Counts
  sources: List<Source>
  top: List<ServiceRow>
  rollouts: List<Rollout>
  changes: List<ChangeRow>
  perSecond: List<Second>
}

export interface Services {
  services: List<ServiceRow>
  at: Time
}

export interface ServiceRow {
  source: string
  list: string
  service: string
  instances: Counts
  versions: List<string>
  zones: List<string>
  protocols: List<string>
  rate: number
  errorRate: number
  p99: Nanos
  policy?: string
  overrides: number
  perSecond?: List<number>
}

export interface Service extends ServiceRow {
  methods: List<MethodFigure>
  rows: List<InstanceRow>
  consumers: List<Consumer>
  set: List<Override>
}

// The errorRate is of failed calls a second, as the rate is of all: see failedShare.
export interface MethodFigure {
  method: string
  kind?: string
  safe?: boolean
  calls: number
  running: number
  rate: number
  errorRate: number
  errors?: Counts
  p50: Nanos
  p90: Nanos
  p99: Nanos
  p999: Nanos
  perSecond?: List<Second>
  heatWindow?: Nanos
  heat?: List<List<HeatCell>>
}

export interface HeatCell {
  took: Nanos
  calls: number
}

export interface Endpoint {
  transport: string
  address: string
  protocol?: string // none: tandem's own
}

export interface InstanceRow {
  id: string
  endpoints: List<Endpoint>
  services?: List<string>
  weight?: number
  version?: string
  zone?: string
  group?: string
  tags?: Readonly<Record<string, string>> | null
  started?: Time
  incarnation?: string
  load?: { at: Time; rate: number; inFlight: number; queued?: number } | null
  list: string
  state: string
  why?: string
  until?: Time
  set: number
  running: number
  rate: number
  errorRate: number
  p99: Nanos
  admin: boolean
  error?: string
}

export interface Info {
  host: string
  pid: number
  command: string
  began: Time
  go: string
  module?: string
  version?: string
  revision?: string
  tandem?: string
  gomaxprocs: number
  goroutines: number
  heapBytes: number
  logLevel?: string
  role: string
  addresses: List<string>
  services: List<string>
  clients: List<string>
  payloads: boolean
}

export interface Setting {
  name: string
  value: string
  from: string
}

export interface Instance extends InstanceRow {
  info?: Info | null
  methods?: List<MethodFigure>
  connections?: { total: number; connections: List<object> } | null
  runningCalls?: { calls: List<object> } | null
  settings?: List<Setting>
  limits?: { limits: List<object>; overload: List<object> } | null
  clients?: List<Consumer>
}

export interface Consumer {
  list: string
  instance: string
  client: string
  rate: number
  errorRate: number
  p99: Nanos
  methods?: List<MethodFigure>
  state?: ClientState | null
  explanation?: Explanation | null
}

export interface ClientState {
  target: string
  connections: number
  instances: { ready: number; ejected: number; suspect: number; unconnected: number; unused: number; withheld: number }
  panicking: boolean
  ejections: number
  breakers: List<{ method: string; closed: number; halfOpen: number; open: number }>
  retryBudget: number
  retriesRefused: number
  registryError: string
  policy: { version?: string; inForce?: string; error?: string }
}

// Decision is where the routes of a policy send a call, and why.
export interface Decision {
  route?: string
  chances?: List<{ subset: string; percent: number; goes?: string; empty?: string }>
  skipped?: List<{ route: string; why: string }>
}

// Explanation is where a call would go now, and why.
export interface Explanation {
  method: string
  target: string
  policy: string
  version?: string
  retryBudget: number
  stale?: string
  attempts: List<{ number: number; instances: List<InstanceState>; steps: List<Step>; route?: Decision | null; chosen?: string; error?: string }>
}

export interface Step {
  policy: string
  kept: List<string>
  dropped: Readonly<Record<string, string>> | null
}

export interface InstanceState {
  id: string
  unusable?: string
  suspect?: string
  breaker: string
  breakerSince?: Time
  breakerWhy?: string
  forced?: Time
  methodBreaker?: string
  throttle?: number
  inFlight: number
  latency: Nanos
  calls: number
  failed: number
  weight: number
}

export interface Topology {
  nodes: List<Node>
  edges: List<Edge>
  cut: number
}

export interface Node {
  id: string
  name: string
  rate: number
  errorRate: number
  instances: number
}

export interface Edge {
  from: string
  to: string
  rate: number
  errorRate: number
  p99: Nanos
  protocols: List<string>
}

export interface Rollout {
  list: string
  kind: 'policy' | 'overrides' | string
  version: string
  applied: number
  pending: number
  refused: number
  text: string
}

export interface ChangeRow {
  list: string
  kind: 'policy' | 'overrides' | 'process' | string
  revision: string
  at: Time
  by: string
  why?: string
  what: string
  undone?: boolean
}

export type OverrideState = 'enabled' | 'disabled' | 'draining'

export interface Override {
  instance?: string
  labels?: Readonly<Record<string, string>>
  state?: OverrideState
  weight?: number
  tags?: Readonly<Record<string, string>>
  from?: number
  ramp?: string // as Go prints durations: "5m0s"
  by?: string
  why?: string
  at?: Time
  until?: Time
}

export interface EditRequest {
  list: string
  set: readonly Override[]
  clear?: readonly string[]
  why: string
  confirm?: string
  dryRun?: boolean
}

export interface Edit {
  revision?: string
  rows: List<InstanceRow>
  share: number
  left: number
  empties: boolean
}

export interface PolicyView {
  key: string
  text: string
  policy?: unknown
  error?: string
  revision: string
  history: List<ChangeRow>
  rollout?: Rollout | null
  schema: unknown
}

export interface PutPolicyRequest {
  list: string
  key: string
  text: string
  base: string
  why: string
  dryRun?: boolean
}

export interface RestoreRequest {
  list: string
  kind: 'policy' | 'overrides'
  key?: string
  revision: string
  why: string
}

export interface Profile {
  name: string
  data: string // base64
}

export interface TapRequest {
  list: string
  instances?: readonly string[]
  tap: { method?: string; failed?: boolean; atLeast?: Nanos; share?: number; rate?: number; for?: Nanos }
}

// A line of a tap is a call, or says why an instance shows no more.
export interface TapEvent {
  instance: string
  failure?: string
  trace: string
  span: string
  client?: string
  method: string
  peer?: string
  protocol?: string
  began: Time
  took: Nanos
  code: string
  error?: string
  attempts?: List<SpanAttempt>
  kind: string
  metadata?: Readonly<Record<string, string>> | null
  request?: unknown
  reply?: unknown
  missed?: number
}

// Resilience, registry and audit.

export interface ChangeRef {
  list: string
  kind: string // overrides, policy or process
  revision?: string
  instance?: string
  id?: string
}

export interface Resilience {
  at: Time
  processes: number
  asked: number
  silent: number
  lists: List<ResilienceRow>
  circuits: List<Circuit>
  cut: number
  clients: List<ResilientClient>
  limiters: List<Limiter>
}

export interface ResilienceRow {
  list: string
  clients: number
  instances: number
  open: number
  halfOpen: number
  forced: number
  methods: number
  suspect: number
  panicking: number
  spent: number
  retriesRefused: number
  guarding: number
  refused: number
  trouble: number
}

export interface Circuit extends InstanceState {
  list: string
  process: string
  client: string
  share: number
  forcedBy?: string
  reason?: string
}

export interface ResilientClient {
  list: string
  process: string
  client: string
  rate: number
  errorRate: number
  state: ClientState
}

export interface Limiter {
  instance: string
  kind: string
  method?: string
  guarding?: boolean
  running: number
  limit: number
  waiting: number
  queue?: number
  refused: number
  reasons?: { late: number; expired: number; full: number; streams: number } | null
}

export interface BreakerOf {
  list: string
  process: string
  client: string
  instance: string
}

export interface ForceRequest {
  list: string
  breakers: readonly BreakerOf[]
  state: 'open' | 'closed' | 'auto'
  for: Nanos
  why: string
  confirm?: string
  dryRun?: boolean
}

export interface Force {
  circuits: List<Circuit>
  share: number
  left: number
  empties: List<string>
  changes: List<ChangeRef>
  failures: List<string>
}

export interface Undone {
  changes: List<ChangeRef>
  failures: List<string>
}

export interface Registries {
  sources: List<RegistryView>
  list?: ListView | null
}

export interface RegistryView extends Source {
  kind: string
  address: string
  path: string
  options?: Readonly<Record<string, string>> | null
  directory: boolean
  inspects: boolean
  writable: boolean
  instances: number
  failing: number
  names: List<string>
}

export interface ListView {
  list: string
  source: string
  kind: string
  at: Time
  error?: string
  entries: List<Entry>
  readers: List<Reader>
  asked: number
  processes: number
  silent: number
  documents: List<DocumentView>
  set: List<Override>
}

export interface Entry {
  id: string
  endpoints: List<Endpoint>
  services?: List<string>
  weight?: number
  version?: string
  zone?: string
  group?: string
  tags?: Readonly<Record<string, string>> | null
  started?: Time
  incarnation?: string
  load?: { at: Time; rate: number; inFlight: number; queued?: number } | null
  listed: boolean
  state: string
  why?: string
  set: number
  effective?: Readonly<Record<string, string>> | null
  held?: { id: string; key: string; revision?: number; lease?: string; ttl?: Nanos; left?: Nanos } | null
  seen: Counts
  unseen: List<string>
  missing: number
}

export interface Reader {
  list: string
  process: string
  client: string
  known: number
  missing: List<string>
  extra: List<string>
  counts: ClientState['instances']
  listed?: Time
  error?: string
  policy?: string
  override: boolean
}

export interface DocumentView {
  kind: string
  key: string
  revision: number
  at?: Time
  by?: string
  why?: string
  bytes: number
  versions: number
  text: string
  cut?: boolean
  error?: string
  rollout?: Rollout | null
}

export interface AuditRequest {
  list?: string
  who?: string
  kind?: string
  text?: string
  from?: Time
  to?: Time
  offset?: number
  max?: number
}

export interface Audit {
  rows: List<AuditRow>
  total: number
  who: List<string>
  unread: List<string>
  skipped: number
  own: boolean
}

export interface AuditRow extends ChangeRef {
  key: string
  at: Time
  by: string
  what: string
  why?: string
  before?: string
  after?: string
  from?: string
  error?: string
  count?: number
  undo?: boolean
  undone?: boolean
}

export interface Detail {
  before: string
  after: string
  base: string
}

// Calls maps the names of the API to their requests and answers.
export interface Calls {
  Session: [Record<string, never>, Session]
  Overview: [Record<string, never>, Overview]
  Services: [{ filter?: string }, Services]
  Service: [{ list: string; service: string }, Service]
  Instance: [{ list: string; instance: string }, Instance]
  Topology: [{ center: string; hops: number }, Topology]
  Edit: [EditRequest, Edit]
  Policy: [{ list: string; key: string }, PolicyView]
  PutPolicy: [PutPolicyRequest, PolicyView]
  Restore: [RestoreRequest, unknown]
  Resilience: [{ list?: string }, Resilience]
  ForceBreaker: [ForceRequest, Force]
  Registry: [{ list?: string }, Registries]
  Audit: [AuditRequest, Audit]
  Detail: [ChangeRef, Detail]
  Undo: [{ changes: readonly ChangeRef[]; why: string }, Undone]
  Profile: [{ list: string; instance: string; kind: string; for?: Nanos; text?: boolean }, Profile]
  Playground: [{ list: string; instance?: string }, Playground]
  Call: [CallRequest, CallAnswer]
  Send: [{ id: string; message?: string; last?: boolean }, { messages: number; closed: boolean }]
  // Traces, Access, log level
  Traces: [TracesRequest, Gathered]
  Trace: [{ trace: string; list?: string }, Gathered]
  Access: [Record<string, never>, Access]
  Logout: [Record<string, never>, unknown]
  RefuseUser: [{ name: string; why: string; dryRun?: boolean }, RefusedUser]
  AdmitUser: [{ name: string }, unknown]
  Ask: [{ list: string; instance: string; method: string; request: unknown }, unknown]
}

export type Name = keyof Calls
export type RequestOf<N extends Name> = Calls[N][0]
export type AnswerOf<N extends Name> = Calls[N][1]

// The playground. Arguments and results are JSON texts, as 64-bit integers are not safe in a
// browser's JSON.

export interface PlayInstance {
  id: string
  state: string
  protocols: List<string>
  targets: Readonly<Record<string, string>> | null
}

export interface MethodSchema {
  method: string
  kind: string
  safe?: boolean
  arguments: number
  request: unknown
  response: unknown
  requestMessage?: string
  responseMessage?: string
}

export interface Playground {
  services: List<string>
  protocols: List<string>
  instances: List<PlayInstance>
  schema?: { methods: List<MethodSchema>; definitions: Readonly<Record<string, unknown>> | null } | null
  described?: string
  error?: string
}

export interface Pair {
  key: string
  value: string
}

export interface CallRequest {
  list: string
  method: string
  arguments?: string
  several?: boolean
  last?: boolean
  metadata?: readonly Pair[]
  timeout?: Nanos
  instance?: string
  protocol?: string
}

export interface CallAnswer {
  code: string
  message?: string
  details?: List<{ type: string; value: string }>
  remote?: boolean
  notExecuted?: boolean
  result?: string
  metadata?: Readonly<Record<string, List<string>>> | null
  instance?: string
  began: Time
  took: Nanos
  sent: number
  received: number
}

// A line of a stream: the first has the ID, the last the end.
export interface StreamEvent {
  id?: string
  message?: string
  end?: CallAnswer
}

// Types of the screens Traces and Access, and of the log level: console/apiaccess.go.

export interface SpanAttempt {
  instance?: string
  began: Time
  took: Nanos
  error?: string
}

export interface TracedSpan {
  list: string
  instance: string
  trace: string
  span: string
  parent?: string
  client?: string // none: as the server saw it
  method: string
  peer?: string
  protocol?: string
  began: Time
  took: Nanos
  code: string
  error?: string
  attempts?: List<SpanAttempt>
}

export interface TracesRequest {
  list?: string
  service?: string
  method?: string
  code?: string
  atLeast?: Nanos
  trace?: string
}

export interface Gathered {
  spans: List<TracedSpan>
  asked: number
  left: number
  without: number
  full: number
  cut: number
  silent: number
  missing: List<{ list: string; instance: string; error: string }>
}

export interface Access {
  by: 'token' | 'authorizer' | string
  own?: SessionRow | null
  logoutURL?: string
  roles: List<string>
  actions: List<Action>
  sessions?: List<SessionRow>
  refused?: List<Refusal>
  lists: List<ListRoles>
}

export interface Action {
  name: string
  role: string
  preview: boolean
  instance: boolean
}

export interface SessionRow {
  id: string
  name: string
  role: string
  since: Time
  seen: Time
  until?: Time
  address: string
  forwarded?: string
  own: boolean
}

export interface Refusal {
  name: string
  by: string
  why: string
  at: Time
  until: Time
}

export interface RefusedUser extends Refusal {
  ended: number
}

export interface ListRoles {
  list: string
  roles: Counts
  refused: number
  silent: number
  unknown: number
  without: number
  error?: string
}

// Change is what an instance says of a change that it has made.
export interface Change {
  id: string
  what: string
  before: string
  after: string
}
