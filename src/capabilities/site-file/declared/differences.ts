import { isDeepStrictEqual } from 'node:util'
import type { DeclaredRecord } from '../../../control/declared-records.js'
import { recordedChange } from '../../../control/revision-note.js'
import { isObject, type Json } from '../../../lib/json.js'
import { Passes, Slices, type Steps } from '../../../lib/slices.js'
import {
  integer,
  listOf,
  object,
  type Shape,
  text,
  textOrNull,
  titledObject,
  type ValueOf,
  words
} from '../../../schema/answer.js'
import type { SiteFile } from './site-file.js'
import type { FileLine } from './site-text.js'

/** Kinds of declared records by the prefix of their labels; longer prefixes precede shorter ones. */
const KINDS = [
  ['site ', 'site'],
  ['TCP edge ', 'tcp_edge'],
  ['backend ', 'backend'],
  ['certificate authority ', 'certificate_authority'],
  ['certificate ', 'certificate'],
  ['IP policy ', 'ip_policy'],
  ['IP restriction ', 'ip_restriction'],
  ['vault ', 'vault'],
  ['listener ', 'listener'],
  ['policy ', 'policy'],
  ['managed certificate ', 'managed_certificate'],
  ['acme', 'acme']
] as const

/** Schema of a line number. */
export const SITE_LINE = { ...integer, minimum: 1, description: 'Line in the file.' } as const
const ITEM = {
  kind: words(KINDS.map(([, kind]): string => kind)),
  name: { ...text, description: 'The name that the file gives it: a host, a name, a file.' },
  line: SITE_LINE,
  file: { ...textOrNull, description: 'A file that the site file imports, in which the line is; null: the site file.' }
}
const value = (description: string) => ({ description }) as { readonly description: string } & Shape<Json>

/** Something that a site file declares. */
export const SITE_ITEM = titledObject('SiteFileItem', ITEM)
/** A declared thing with its place. */
export type SiteItem = ValueOf<typeof SITE_ITEM>

/** Difference of one declared thing between two site files. Contains no secret. */
export const SITE_CHANGE = titledObject('SiteFileChange', {
  change: words(['added', 'changed', 'removed']),
  ...ITEM,
  fields: listOf(
    object({
      field: { ...text, description: 'As this API names it; of a route behind its path.' },
      before: value('null: it was not set. Names of the file stand for ids.'),
      after: value('null: it is not set.')
    }),
    'What differs of something that is changed.'
  ),
  secrets: listOf(text, 'Fields of secrets whose values differ.')
})
/** A changed thing, for plans, histories and answers. */
export type SiteDifference = ValueOf<typeof SITE_CHANGE>
type FieldDifference = SiteDifference['fields'][number]

/** Records of one declared thing. */
interface Content extends SiteItem {
  readonly label: string
  readonly records: DeclaredRecord[]
  /** Data of listeners and policies. */
  readonly other?: object
}

/** Everything that a site file declares, in its order. */
export function itemsOf(file: SiteFile): SiteItem[] {
  return [...contentsOf(file).values()].map(({ kind, name, ...at }) => ({ kind, name, ...placeOf(at) })).sort(byLine)
}

/** Returns the differences from `before` to `after`, in the order of the file; undefined for a missing file. Works in slices. */
export async function siteDifferences(
  before: SiteFile | undefined,
  after: SiteFile | undefined
): Promise<SiteDifference[]> {
  return await Slices.besideTraffic().run(comparing(before, after))
}

function* comparing(before: SiteFile | undefined, after: SiteFile | undefined): Steps<SiteDifference[]> {
  const then = contentsOf(before)
  yield
  const now = contentsOf(after)
  yield
  const compare = new Comparison(before, after)
  const found: SiteDifference[] = []
  const passes = new Passes()
  for (const [label, content] of now) {
    if (passes.due()) yield
    const former = then.get(label)
    if (former === undefined) found.push(whole('added', content))
    else {
      const { fields, secrets } = compare.contents(former, content)
      if (fields.length + secrets.length > 0) found.push({ ...whole('changed', content), fields, secrets })
    }
  }
  const gone = [...then].filter(([label]) => !now.has(label)).map(([, content]) => whole('removed', content))
  return [...found.sort(byLine), ...gone.sort(byLine)]
}

const byLine = (a: SiteItem, b: SiteItem) =>
  (a.file ?? '') === (b.file ?? '') ? a.line - b.line : (a.file ?? '') < (b.file ?? '') ? -1 : 1

const placeOf = ({ line, file }: { readonly line: number; readonly file?: string | null }) => ({
  line,
  file: file ?? null
})

function whole(change: SiteDifference['change'], { kind, name, ...at }: SiteItem): SiteDifference {
  return { change, kind, name, ...placeOf(at), fields: [], secrets: [] }
}

function contentsOf(file: SiteFile | undefined): Map<string, Content> {
  const found = new Map<string, Content>()
  for (const record of file?.records ?? []) {
    const content = found.get(record.label)
    if (content !== undefined) content.records.push(record)
    else found.set(record.label, { ...itemOf(record.label, record), records: [record] })
  }
  for (const { unit, ...line } of file?.listeners ?? []) {
    const { kind: _kind, ...other } = unit
    found.set(`listener ${unit.name}`, { ...itemOf(`listener ${unit.name}`, line), records: [], other })
  }
  for (const { name, text, ...line } of file?.policies ?? []) {
    found.set(`policy ${name}`, { ...itemOf(`policy ${name}`, line), records: [], other: { text } })
  }
  const { authority, line, keyType } = file?.certificates ?? {}
  if (authority !== undefined && line !== undefined) {
    const { externalAccount, ...rest } = authority
    const other = { ...rest, key_type: keyType, external_account: externalAccount?.kid ?? null }
    found.set('acme', { ...itemOf('acme', line), name: 'acme', records: [], other })
  }
  for (const { host, ...line } of file?.certificates.hosts ?? []) {
    const label = `managed certificate ${host}`
    found.set(label, { ...itemOf(label, line), records: [], other: { key_type: keyType } })
  }
  return found
}

function itemOf(label: string, line: FileLine): Omit<Content, 'records'> {
  const known = KINDS.find(([begins]) => label.startsWith(begins))
  if (known === undefined) throw new RangeError(`"${label}" begins with no kind of a site file`)
  return { kind: known[1], name: label.slice(known[0].length), ...placeOf(line), label }
}

const POLICY = 'traffic_policy'

/** Compares one declared thing of two files. */
class Comparison {
  /** Names of policies by the ids of their owners. */
  readonly #before: ReadonlyMap<string, string> | undefined
  readonly #after: ReadonlyMap<string, string> | undefined
  readonly #labels = new Map<string, string>()

  constructor(before: SiteFile | undefined, after: SiteFile | undefined) {
    this.#before = before?.policyOf
    this.#after = after?.policyOf
    for (const { record, label, name } of [...(before?.records ?? []), ...(after?.records ?? [])]) {
      this.#labels.set(record.id, name.length > 1 ? name.slice(1).join(' ') : label)
    }
  }

  contents(before: Content, after: Content): Pick<SiteDifference, 'fields' | 'secrets'> {
    const fields: FieldDifference[] = []
    const secrets: string[] = []
    const then = new Map(before.records.map((one) => [keyOf(one), one]))
    const now = new Map(after.records.map((one) => [keyOf(one), one]))
    for (const key of new Set([...then.keys(), ...now.keys()])) {
      const [one, other] = [then.get(key), now.get(key)]
      // A site that is written as before has the records of before.
      if (one?.record === other?.record) continue
      const compared = this.#record(one, other)
      fields.push(...compared.fields)
      secrets.push(...compared.secrets)
    }
    fields.push(...others(before.other, after.other))
    return { fields, secrets }
  }

  #record(
    before: DeclaredRecord | undefined,
    after: DeclaredRecord | undefined
  ): Pick<SiteDifference, 'fields' | 'secrets'> {
    const one = after ?? before
    if (one === undefined) throw new RangeError('a comparison of nothing')
    const [, ...inner] = one.name
    const within = inner.join(' ')
    if (before === undefined || after === undefined) {
      const says = (there: unknown) => (there === undefined ? null : 'declared')
      return { fields: [{ field: within, before: says(before), after: says(after) }], secrets: [] }
    }
    const change = recordedChange(one.resource, before.record, after.record)
    const at = (field: string) => (within === '' ? field : `${within} ${field}`)
    const fields = Object.entries(change.fields)
      .filter(([field]) => field !== POLICY && one.resource.fields[field]?.settable !== 'never')
      .map(([field, pair]) => {
        return { field: at(field), before: this.#named(pair.before), after: this.#named(pair.after) }
      })
    const policy = {
      field: at('policy'),
      before: this.#before?.get(one.record.id) ?? null,
      after: this.#after?.get(one.record.id) ?? null
    }
    if (policy.before !== policy.after) fields.push(policy)
    return { fields, secrets: change.secrets.map(at) }
  }

  /** Ids in the words of the file. */
  #named(value: Json): Json {
    if (typeof value === 'string') return this.#labels.get(value) ?? value
    if (Array.isArray(value)) return value.map((one: Json) => this.#named(one))
    if (!isObject(value)) return value
    const data = value as { readonly [key: string]: Json }
    if (typeof data.id === 'string' && this.#labels.has(data.id)) return this.#named(data.id)
    return Object.fromEntries(
      Object.entries(data).map(([key, one]) => [this.#labels.get(key) ?? key, this.#named(one)])
    )
  }
}

const keyOf = ({ record }: DeclaredRecord) => `${record.kind} ${record.id}`

function others(before: object | undefined, after: object | undefined): FieldDifference[] {
  const [then, now] = [(before ?? {}) as Record<string, Json>, (after ?? {}) as Record<string, Json>]
  return [...new Set([...Object.keys(then), ...Object.keys(now)])]
    .filter((field) => !isDeepStrictEqual(then[field], now[field]))
    .map((field) => ({ field, before: then[field] ?? null, after: now[field] ?? null }))
}
