import {
  type AccessFlags,
  type ApiAccess,
  type ApiAnswer,
  accessFor,
  askApi,
  printApiError
} from '../../cli/api-client.js'
import { ExitCode } from '../../cli/process.js'
import { isObject } from '../../lib/json.js'
import { printable } from '../../lib/printable.js'
import type { LimitBucketView, LimitSummary, RefusedKeys } from './answers.js'

export interface LimitFlags extends AccessFlags {
  readonly json?: boolean
}

export interface BucketFlags extends LimitFlags {
  readonly values?: string
  readonly bucket?: string
}

const PAGE = '100'

/** Prints every limit, those that refuse most now first. Resolves with the exit code. */
export async function limitList(flags: LimitFlags & { readonly text?: string }): Promise<number> {
  const access = accessFor('limits', flags)
  if (typeof access === 'number') return access
  const found = await limitsOf(access, flags.text)
  if (!Array.isArray(found)) return printApiError(found)
  // The order may change from one page to the next.
  const sorted = found.sort((a, b) => b.recent.refused - a.recent.refused)
  for (const limit of sorted) print(flags.json === true ? JSON.stringify(limit) : lineOf(limit))
  if (found.length === 0) process.stderr.write('no limits: no running policy has a rate-limit action\n')
  return ExitCode.ok
}

/** Prints the keys that a limit rejects most. Resolves with the exit code. */
export async function limitTop(limit: string, flags: LimitFlags & { readonly limit: string }): Promise<number> {
  return await ofLimit(limit, flags, async (access, id) => {
    const query = new URLSearchParams({ limit: flags.limit })
    const answer = await askApi(access, `/limits/${id}/top?${query}`)
    return shown(answer, flags, ({ keys }) => {
      for (const { refused, key, last_refused_at: last, bucket } of keys as RefusedKeys['keys']) {
        const text = key === null ? '(too long to keep)' : JSON.stringify(key)
        print(
          `${refused} refused ${printable(text)}, last at ${last.slice(11, 19)}${bucket === null ? '' : ` ${bucket}`}`
        )
      }
      if ((keys as RefusedKeys['keys']).length === 0)
        process.stderr.write('no requests were rejected in the last five minutes\n')
    })
  })
}

/** Prints the bucket of a key, or resets it and prints its new state. Resolves with the exit code. */
export async function limitBucket(
  command: 'key' | 'reset',
  limit: string,
  key: readonly string[],
  flags: BucketFlags
): Promise<number> {
  const query = bucketOf(key, flags)
  if (query === undefined) {
    process.stderr.write(
      `error: name the bucket by its key, by --values or by --bucket\n(sluice limits ${command} --help lists the flags)\n`
    )
    return ExitCode.usage
  }
  return await ofLimit(limit, flags, async (access, id) => {
    const method = command === 'reset' ? 'DELETE' : 'GET'
    const answer = await askApi(access, `/limits/${id}/buckets?${query}`, { method })
    return shown(answer, flags, (body) => print(bucketLine(body as unknown as LimitBucketView, command === 'reset')))
  })
}

/** Returns the query for a bucket; undefined unless the command line names exactly one. */
function bucketOf(key: readonly string[], { values, bucket }: BucketFlags): URLSearchParams | undefined {
  const named: [string, string][] = []
  if (key.length === 1) named.push(['key', key[0] as string])
  if (key.length > 1) named.push(['values', JSON.stringify(key)])
  if (values !== undefined) named.push(['values', values])
  if (bucket !== undefined) named.push(['bucket', bucket])
  return named.length === 1 ? new URLSearchParams(named) : undefined
}

/** Does something with the one limit that has this id or name. */
async function ofLimit(
  limit: string,
  flags: LimitFlags,
  work: (access: ApiAccess, id: string) => Promise<number>
): Promise<number> {
  const access = accessFor('limits', flags)
  if (typeof access === 'number') return access
  if (limit.startsWith('lim_')) return await work(access, encodeURIComponent(limit))
  const found = await limitsOf(access, limit)
  if (!Array.isArray(found)) return printApiError(found)
  const named = found.filter(({ name }) => name === limit)
  const [only, other] = named
  if (only !== undefined && other === undefined) return await work(access, only.id)
  const why = only === undefined ? 'no limit has this name' : 'several limits have this name; give an id'
  process.stderr.write(`error: ${printable(limit)}: ${why}\n`)
  for (const one of named) process.stderr.write(`  ${lineOf(one)}\n`)
  return ExitCode.failure
}

/** Returns all limits with this text, or the body of the API's error. */
async function limitsOf(
  access: ApiAccess,
  text: string | undefined
): Promise<LimitSummary[] | Readonly<Record<string, unknown>>> {
  const found: LimitSummary[] = []
  let before: string | undefined
  do {
    const query = new URLSearchParams({ limit: PAGE })
    if (text !== undefined) query.set('text', text)
    if (before !== undefined) query.set('before_id', before)
    const { status, body } = await askApi(access, `/limits?${query}`)
    if (status !== 200) return body
    const page = body.limits as LimitSummary[]
    found.push(...page)
    before = body.next_page_uri === null ? undefined : page.at(-1)?.id
  } while (before !== undefined)
  return found
}

function shown(
  { status, body }: ApiAnswer,
  { json }: LimitFlags,
  write: (body: Readonly<Record<string, unknown>>) => void
): number {
  if (status !== 200 || !isObject(body)) return printApiError(body)
  if (json === true) print(JSON.stringify(body))
  else write(body)
  return ExitCode.ok
}

/** `lim_… "per client" of shop.test/cart, rule "limited": 60 in 60s; 3 buckets, 9 admitted, 1 refused, 1 lately` */
function lineOf(limit: LimitSummary): string {
  const {
    id,
    name,
    owner,
    rule,
    capacity,
    scope,
    capacity_expression,
    cost,
    cost_expression,
    rate,
    enforce,
    buckets,
    admitted,
    refused,
    recent
  } = limit
  const over = [`${refused} refused`, ...(limit.would_refuse > 0 || !enforce ? [`${limit.would_refuse} would be`] : [])]
  const what = printable(`"${name}" of ${owner.name}, rule "${rule}"`)
  const counts = [
    `${buckets} ${buckets === 1 ? 'bucket' : 'buckets'}`,
    `${admitted} admitted`,
    ...over,
    `${recent.refused} lately`
  ].join(', ')
  const most = printable(String(capacity ?? `(${capacity_expression})`))
  const weight = cost === 1 ? '' : printable(`, cost ${cost ?? `(${cost_expression})`}`)
  return `${id} ${what}: ${most} in ${rate}${scope === 'cluster' ? ' over the cluster' : ''}${weight}${enforce ? '' : ', not enforced'}; ${counts}`
}

function bucketLine(bucket: LimitBucketView, emptied: boolean): string {
  const { key, capacity, used, remaining, retry_after_seconds: retry, reset_seconds: reset } = bucket
  const name = bucket.bucket
  if (capacity === null || retry === null)
    return printable(
      `${emptied ? 'emptied: ' : ''}${JSON.stringify(key)} ${used} used, of what each request may have${used === 0 ? '' : `; all is free in ${reset}s`} ${name}`
    )
  const next = retry === 0 ? 'the next is admitted' : `the next is admitted in ${retry}s, at ${bucket.next_admitted_at}`
  const free = used === 0 ? '' : `, all is free in ${reset}s`
  const line = `${JSON.stringify(key)} ${used} of ${capacity} used, ${remaining} remain; ${next}${free} ${bucket.bucket}`
  return printable(emptied ? `emptied: ${line}` : line)
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
