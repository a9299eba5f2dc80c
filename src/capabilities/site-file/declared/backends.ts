import type { Coded } from '../../../lib/errors.js'
import type { NodePath } from '../../../policy/problems.js'
import { dataOf, type MapEntry, type TreeNode } from '../../../policy/tree.js'
import {
  failoverBackend,
  httpResponseBackend,
  tunnelGroupBackend,
  weightedBackend
} from '../../../resources/backends.js'
import { staticBackend } from '../../../resources/static-backend.js'
import { fieldErrors } from '../../../schema/errors.js'
import { readClientCertificate } from './access.js'
import type { Declaration } from './declaration.js'
import {
  BACKEND,
  BALANCE_SETTINGS,
  BALANCES,
  FILE_SETTINGS,
  RESPONSE,
  SERVER_SETTINGS,
  SHARE_SETTINGS,
  UPSTREAM_TLS
} from './fields.js'
import { isFolderPath, readFiles } from './files.js'
import { ABOUT, type Fields, type Form, requests } from './form.js'
import { locator } from './locator.js'
import type { Names } from './names.js'
import { readServerUrl } from './server-url.js'
import { type DeclaredServer, readServer } from './servers.js'
import { siteErrors } from './site-codes.js'
import { lacks } from './synonyms.js'
import type { Reader } from './values.js'

const FORMS = ['servers', 'labels', 'response', 'files', 'backends']
const SHARED_SETTINGS: Fields = { ...SHARE_SETTINGS, ...BALANCE_SETTINGS }
/** Forms of a backend with which settings have an effect. */
const TAKEN_BY: readonly (readonly [settings: Fields, forms: readonly string[]])[] = [
  [SERVER_SETTINGS, ['servers']],
  [SHARE_SETTINGS, ['servers', 'backends']],
  [{ balance: BACKEND.fields.balance as Form, ...BALANCE_SETTINGS }, ['servers', 'labels', 'backends']],
  [FILE_SETTINGS, ['files']]
]
const TLS_RENAMED = { ca: 'ca_pem' }
const TUNNEL_BALANCES = ['round_robin', 'least_requests', 'hash']
/** Balancing methods that are not supported yet. */
const PLANNED_BALANCES = ['random']

/** Reads the map `backends`: single ones first, because groups refer to them. */
export async function readBackends(reader: Reader, { key, value }: MapEntry): Promise<void> {
  const { backends } = reader.names
  const entries = reader.declaration.entries(value, [key], 'backends')
  // A failover may name a weighted one.
  const rank = (entry: MapEntry) => (!isGroup(entry) ? 0 : balanceOf(entry) === 'failover' ? 2 : 1)
  for (const entry of entries) backends.set(entry.key, undefined)
  for (const entry of entries.toSorted((a, b) => rank(a) - rank(b)))
    backends.set(entry.key, await new BackendReader(reader, entry, [key, entry.key]).read())
}

/** Pattern of a server in place of a backend's name. */
const ADDRESS = /^([a-z][a-z0-9+.-]*:\/\/.*|unix:\/.*|(\[[0-9a-f:.]+\]|[^\s:/]+):\d+)$/i

/** Returns the id of a backend given as a name, server URL, folder, server list or map as under `backends`; undefined after a report. */
export async function backendAt(
  within: Reader,
  { keySpan, value }: MapEntry,
  path: NodePath
): Promise<string | undefined> {
  if (value.kind === 'broken') return undefined
  const { names } = within
  const url = value.kind === 'scalar' && typeof value.value === 'string' ? value.value : ''
  const isFolder = isFolderPath(url)
  const isWritten = isFolder || ADDRESS.test(url)
  if (value.kind === 'scalar' && (!isWritten || names.backends.has(url))) return names.backends.id(value, path)
  // One URL is one backend, at every position.
  if (names.written.has(url)) return names.written.get(url)
  const { span } = value
  const servers = value.kind === 'scalar' ? ({ kind: 'list', span, items: [value] } as const) : value
  const only = isFolder ? { key: 'files', keySpan: span, value } : { key: 'servers', keySpan: span, value: servers }
  const whole: TreeNode = servers.kind === 'map' ? servers : { kind: 'map', span, entries: [only] }
  const entry = { key: url === '' ? path.join(' ') : url, keySpan, value: whole }
  const id = await new BackendReader(within, entry, path).read()
  if (url !== '') names.written.set(url, id)
  return id
}

/** Is it made of other backends? */
function isGroup({ value }: Pick<MapEntry, 'value'>): boolean {
  return value.kind === 'map' && value.entries.some(({ key }) => key === 'backends')
}

function balanceOf({ value }: MapEntry): unknown {
  const found = value.kind === 'map' ? value.entries.find(({ key }) => key === 'balance')?.value : undefined
  return found?.kind === 'scalar' ? found.value : undefined
}

/** Id of a backend with its weight. */
type Member = readonly [id: string, weight: number]

class BackendReader {
  readonly #reader: Reader
  readonly #declaration: Declaration
  readonly #names: Names
  readonly #entry: MapEntry
  readonly #path: NodePath
  readonly #fields: ReadonlyMap<string, MapEntry>
  readonly #about: Record<string, unknown>
  readonly #balance: string

  constructor(reader: Reader, entry: MapEntry, path: NodePath) {
    this.#reader = reader
    this.#declaration = reader.declaration
    this.#names = reader.names
    this.#entry = entry
    this.#path = path
    this.#fields = reader.declaration.fields(entry.value, this.#path, BACKEND)
    this.#about = this.#settings(requests(staticBackend, ABOUT))
    this.#balance = this.#readBalance()
  }

  /** Returns the id of the backend; undefined after a report. */
  async read(): Promise<string | undefined> {
    const forms = FORMS.filter((form) => this.#fields.has(form))
    const given = forms.length === 1 ? this.#fields.get(forms[0] as string) : undefined
    if (given === undefined) {
      if (forms.length === 0 && !lacks(this.#entry.value, BACKEND)) return undefined
      const error = forms.length === 0 ? fieldErrors.FIELD_REQUIRED : fieldErrors.CONFLICTING_FIELDS
      this.#error(this.#entry.keySpan, error, `a backend must have exactly one of ${FORMS.join(', ')}`)
      return undefined
    }
    for (const [settings, takers] of TAKEN_BY) if (!takers.includes(given.key)) this.#unfit(settings, listed(takers))
    if (given.key === 'backends') return await this.#group(given)
    if (given.key === 'servers') return await this.#servers(given)
    if (given.key === 'files') {
      const from = { folder: given, about: this.#about, settings: this.#settings(FILE_SETTINGS) }
      const locate = (field: string) => this.#settingAt(field === 'folder' ? given.key : field)
      return await readFiles(this.#declaration, this.#entry, this.#path, from, locate)
    }
    if (given.key === 'labels') {
      const body = { labels: dataOf(given.value), ...this.#balanced(TUNNEL_BALANCES, 'labels') }
      return await this.#add(tunnelGroupBackend, body, given)
    }
    const path = [...this.#path, given.key]
    const fields = this.#declaration.fields(given.value, path, RESPONSE)
    const body = await this.#reader.values.fields(fields, path, RESPONSE.fields)
    return await this.#add(httpResponseBackend, body, given)
  }

  /** Reads a backend that consists of others. Returns its id; undefined after a report. */
  async #group(given: MapEntry): Promise<string | undefined> {
    const { key, value } = given
    const path = [...this.#path, key]
    const members: [id: string, weight: number][] = []
    if (value.kind === 'map' && this.#balance !== 'failover') {
      for (const entry of value.entries) {
        const id = this.#names.backends.idOf(entry.key, { span: entry.keySpan }, [...path, entry.key])
        if (id !== undefined) members.push([id, dataOf(entry.value) as number])
      }
    } else {
      const what = this.#balance === 'failover' ? 'backends' : 'backends of no weights'
      for (const id of this.#names.backends.ids(this.#declaration.items(value, path, what), path)) members.push([id, 1])
    }
    return members.length === 0 ? undefined : await this.#combine(members, given)
  }

  async #servers(given: MapEntry): Promise<string | undefined> {
    const { key, value } = given
    const path = [...this.#path, key]
    const items = this.#declaration.items(value, path, 'servers')
    const servers = items.map((item, index) => readServer(this.#declaration, item, [...path, index]))
    if (items.length === 0 && value.kind === 'list') {
      this.#error(value.span, fieldErrors.FIELD_REQUIRED, 'a backend needs at least one server')
    }
    const found = servers.filter((server) => server !== undefined)
    const [only, second] = found
    if (found.length < items.length || only === undefined) return undefined
    if (second === undefined && !this.#chooses) return await this.#address(only, [this.#entry.key], this.#about)
    const usual: Member[] = []
    const backups: Member[] = []
    for (const server of found) {
      const twice = found.filter(({ url }) => url === server.url).indexOf(server)
      const name = [this.#entry.key, server.url, ...(twice > 0 ? [String(twice)] : [])]
      const id = await this.#address(server, name, {})
      if (id !== undefined) (server.backup ? backups : usual).push([id, server.weight])
    }
    if (usual.length + backups.length < found.length) return undefined
    return backups.length === 0 ? await this.#combine(usual, given) : await this.#withBackups(usual, backups, given)
  }

  /** Is there a choice that holds for a single server too, and for one that is added later? */
  get #chooses(): boolean {
    return this.#balance === 'hash' || Object.keys(BALANCE_SETTINGS).some((key) => this.#fields.has(key))
  }

  /** Creates a failover from the regular servers to the backup servers. */
  async #withBackups(
    usual: readonly Member[],
    backups: readonly Member[],
    entry: MapEntry
  ): Promise<string | undefined> {
    if (usual.length === 0 || this.#balance === 'failover') {
      const message =
        usual.length === 0
          ? 'backup stands in for other servers: one of them must be none'
          : 'backup does not go with balance: failover, which asks the servers in their order'
      this.#error(entry.keySpan, fieldErrors.CONFLICTING_FIELDS, message, 'servers')
      return undefined
    }
    const parts: string[] = []
    for (const [name, members] of [['usual', usual] as const, ['backup', backups] as const]) {
      const isAlone = members.length === 1 && !this.#chooses
      const id = isAlone ? members[0]?.[0] : await this.#combine(members, entry, name)
      if (id !== undefined) parts.push(id)
    }
    return parts.length < 2 ? undefined : await this.#add(failoverBackend, { backends: parts }, entry)
  }

  async #address(
    { url, node, path }: DeclaredServer,
    name: readonly string[],
    about: Readonly<Record<string, unknown>>
  ): Promise<string | undefined> {
    const at = { path, span: node.span }
    const read = readServerUrl(url)
    if (read.kind !== 'server') {
      this.#declaration.error(at, fieldErrors.FIELD_INVALID, read.message)
      return undefined
    }
    const { scheme, address, path: prefix, secure, http2 } = read
    if (!address.startsWith('unix:')) this.#declaration.addServer(at, address)
    const given = this.#settings(SERVER_SETTINGS)
    if (given.tls !== undefined && !secure) {
      this.#error(
        (this.#fields.get('tls') as MapEntry).keySpan,
        fieldErrors.CONFLICTING_FIELDS,
        `tls does not go with ${scheme}://`,
        'tls'
      )
    }
    const tls = { ...(secure ? await this.#tls() : {}), enabled: secure }
    const body = { ...about, ...given, address, path: prefix, tls, http2 }
    const label = `backend ${this.#entry.key}`
    const locate = (field: string) => this.#settingAt(field) ?? at
    return (await this.#declaration.add(staticBackend, { label, name, body, at, locate }))?.id
  }

  async #combine(members: readonly Member[], entry: MapEntry, part?: string): Promise<string | undefined> {
    if (this.#balance === 'failover') {
      this.#unfit(SHARED_SETTINGS, 'a balance that shares traffic')
      return await this.#add(failoverBackend, { backends: members.map(([id]) => id) }, entry)
    }
    const body = {
      backends: Object.fromEntries(members),
      ...this.#balanced(BALANCES, 'servers'),
      ...this.#settings(SHARE_SETTINGS)
    }
    return await this.#add(weightedBackend, body, entry, part)
  }

  /** Returns balance and its settings, as in API requests. */
  #balanced(known: readonly string[], of: string): Record<string, unknown> {
    const given = this.#fields.get('balance')
    if (given !== undefined && BALANCES.includes(this.#balance) && !known.includes(this.#balance)) {
      const message = `balance: ${this.#balance} does not go with ${of}; write ${listed(known)}`
      this.#error(given.value.span, fieldErrors.FIELD_INVALID, message, 'balance')
    }
    // `weighted` is the round robin of the API.
    const balance = this.#balance === 'weighted' ? 'round_robin' : this.#balance
    return { ...(known.includes(balance) ? { balance } : {}), ...this.#settings(BALANCE_SETTINGS) }
  }

  /** Reports settings that would have no effect in this backend. */
  #unfit(settings: Fields, needed: string): void {
    for (const [key, { keySpan }] of this.#fields) {
      if (!(key in settings)) continue
      this.#error(keySpan, fieldErrors.CONFLICTING_FIELDS, `${key} goes with ${needed} alone`, key)
    }
  }

  /** Returns the backend's settings, as in API requests. */
  #settings(known: Fields): Record<string, unknown> {
    const given = [...this.#fields].filter(([key]) => key in known)
    return Object.fromEntries(given.map(([key, { value }]) => [key, dataOf(value)]))
  }

  /** Returns the setting `tls` as in API requests: contents replace the names of files. */
  async #tls(): Promise<Record<string, unknown>> {
    const entry = this.#fields.get('tls')
    if (entry === undefined) return {}
    const path = [...this.#path, 'tls']
    const tls: Record<string, unknown> = {}
    for (const [key, { value, keySpan }] of this.#declaration.fields(entry.value, path, UPSTREAM_TLS)) {
      const at = { path: [...path, key], span: value.span }
      if (key === 'client_certificate') {
        const id = await readClientCertificate(this.#reader, value, at.path)
        if (id !== undefined) tls.client_certificate_id = id
      } else if (key === 'ca') {
        if (this.#declares(entry, 'ca_pem'))
          this.#error(keySpan, fieldErrors.CONFLICTING_FIELDS, 'ca does not go with ca_pem', 'tls', 'ca')
        tls.ca_pem = (await this.#declaration.fileAt(value, at.path, 'the authorities')) ?? ''
      } else tls[key] = dataOf(value)
    }
    return tls
  }

  #declares({ value }: MapEntry, key: string): boolean {
    return value.kind === 'map' && value.entries.some((one) => one.key === key)
  }

  /** Returns the position of a field that comes from a setting. */
  #settingAt(field: string): ReturnType<ReturnType<typeof locator>> | undefined {
    const [key = ''] = field.split(/[.[]/)
    const entry = this.#fields.get(key)
    if (entry === undefined) return undefined
    const read = locator(entry.value, [...this.#path, key], entry.keySpan, TLS_RENAMED)
    return read(field.slice(key.length).replace(/^\./, ''))
  }

  async #add(
    resource: Parameters<Declaration['add']>[0],
    body: object,
    within: MapEntry,
    part?: string
  ): Promise<string | undefined> {
    const { key, keySpan } = this.#entry
    const at = { path: this.#path, span: keySpan }
    const locate = locator(within.value, [...this.#path, within.key], within.keySpan)
    const inside = (field: string) =>
      field in this.#about ? at : (this.#shareAt(field) ?? locate(field.replace(/^labels\.?/, '')))
    const name = part === undefined ? [key] : [key, part]
    const wanted = { label: `backend ${key}`, name, body: { ...this.#about, ...body }, at, locate: inside }
    return (await this.#declaration.add(resource, wanted))?.id
  }

  #shareAt(field: string): ReturnType<ReturnType<typeof locator>> | undefined {
    const [key = ''] = field.split(/[.[]/)
    return key in SHARED_SETTINGS ? this.#settingAt(field) : undefined
  }

  #readBalance(): string {
    const given = this.#fields.get('balance')
    if (given === undefined) return 'weighted'
    const word = this.#declaration.text(given.value, [...this.#path, 'balance'], 'balance')
    if (word === undefined || BALANCES.includes(word)) return word ?? 'weighted'
    const known = listed(BALANCES)
    const unbuilt = PLANNED_BALANCES.includes(word)
    const message = unbuilt ? `${word} is not built in this version; write ${known}` : `must be ${known}`
    const error = unbuilt ? siteErrors.NOT_BUILT : fieldErrors.FIELD_INVALID
    this.#error(given.value.span, error, `balance: ${message}`, 'balance')
    return 'weighted'
  }

  #error(span: TreeNode['span'], error: Coded, message: string, ...within: string[]): void {
    this.#declaration.error({ path: [...this.#path, ...within], span }, error, message)
  }
}

function listed(words: readonly string[]): string {
  if (words.length < 2) return words.join()
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}
