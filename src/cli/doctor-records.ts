import { X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import type { LookupFunction } from 'node:net'
import { join } from 'node:path'
import { storeName } from '../app/store-copy.js'
import { listKeys } from '../control/operator-keys.js'
import { CodedError } from '../lib/errors.js'
import { readPrivateFile } from '../lib/files.js'
import { parseSealKey, Sealer } from '../lib/seal.js'
import { shellWord } from '../lib/shell-word.js'
import { fileReason } from '../lib/system-errors.js'
import { COPY_FILE, isShared, isWithoutStore, mustNotBeLost, storeAddress } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import type { HostPort } from '../runtime/plan.js'
import { type CopyEnd, endOfCopy } from '../store/copy/copy-file.js'
import { inspectStore, type StoreFacts } from '../store/inspection.js'
import { checkFile } from './check-files.js'
import { doubtful, type Finding, fine, wrong, wrongBy } from './doctor-finding.js'
import { failureText } from './failure.js'

/** Checks the store. `facts` is undefined if there is no store, or it cannot be read. */
export async function checkStore(
  options: Options,
  lookup: LookupFunction
): Promise<{ readonly findings: readonly Finding[]; readonly facts?: StoreFacts }> {
  const address = storeAddress(options)
  if (address === IN_MEMORY) return { findings: [fine('store', 'the store is in memory')] }
  const help = 'restore it with "sluice restore FILE", or create an empty one with "sluice start --new-store"'
  try {
    mustNotBeLost(address, options.data === IN_MEMORY ? undefined : options.data)
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return { findings: [wrong('store', error.message.replace(/: put it back.*/s, ''), help)] }
  }
  if (isWithoutStore(address))
    return { findings: [fine('store', `${address} does not exist yet; the first start creates it`)] }
  try {
    const facts = await inspectStore(address, { lookup, thorough: true })
    const { revision, schema, holder } = facts
    const name = isShared(address) ? 'PostgreSQL' : address
    const use = holder === undefined ? '' : `, in use by ${holder}`
    if (revision === null)
      return { facts, findings: [fine('store', `${name} is empty; the first start creates the tables`)] }
    const older =
      schema.here < schema.known ? `; the next start migrates its schema from ${schema.here} to ${schema.known}` : ''
    return { facts, findings: [fine('store', `${name} is sound at revision ${revision}${use}${older}`)] }
  } catch (error) {
    return { findings: [wrongBy('store', failureText(error), 'check the database and its address')] }
  }
}

/** The sealing key, and the keys of the operator. */
export async function checkKeys(
  { data }: Pick<Options, 'data'>,
  facts: StoreFacts | undefined,
  environment: Readonly<Record<string, string | undefined>>
): Promise<Finding[]> {
  const folder = data === IN_MEMORY ? undefined : data
  const findings = [await sealKeyFinding(folder, facts, environment.SLUICE_SEAL_KEY || undefined)]
  if ((environment.SLUICE_API_KEY ?? '') !== '') return [...findings, fine('keys', 'SLUICE_API_KEY opens the API')]
  if (folder === undefined) return findings
  try {
    const count = (await listKeys(folder)).length
    const message =
      count === 0 ? 'no API key yet; the next start creates one and prints it' : `API keys of the operator: ${count}`
    const exposed = (await readPrivateFile(join(folder, 'api-keys.json'))) === 'exposed'
    const help = `chmod 600 ${join(folder, 'api-keys.json')}`
    findings.push(
      exposed ? doubtful('keys', 'other users may read the hashes of API keys', help) : fine('keys', message)
    )
  } catch (error) {
    findings.push(wrongBy('keys', failureText(error), 'restore the file, or move it away to start with a new key'))
  }
  return findings
}

/** Checks the copy of the configuration: does it belong to this store, and can it be replaced? */
export async function checkCopy(
  options: Options,
  facts: StoreFacts | undefined,
  environment: Readonly<Record<string, string | undefined>>
): Promise<Finding[]> {
  const path = join(options.data, COPY_FILE)
  if (options.data === IN_MEMORY || !existsSync(path)) return []
  const text =
    environment.SLUICE_SEAL_KEY || (await readPrivateFile(join(options.data, 'seal.key')).catch(() => undefined))
  if (text === undefined || text === 'exposed') return []
  let end: CopyEnd | undefined
  try {
    end = await endOfCopy({ path, store: storeName(options), seal: new Sealer(parseSealKey(text.toString())) })
  } catch (error) {
    return [wrongBy('copy', failureText(error), 'restore the key from a backup')]
  }
  if (end === undefined) {
    const help = `${path}.1 is the previous copy; a process writes a new one when it reaches the store`
    return [doubtful('copy', `${path} is damaged, or belongs to another store or key`, help)]
  }
  const { revision } = end.place
  const [here, account] = [facts?.revision ?? undefined, facts?.account]
  const help = `put that store back, or move ${path} away when the store is the right one; it is not replaced until then`
  if (account !== undefined && account !== end.account)
    return [doubtful('copy', `${path} belongs to another store, at revision ${revision}`, help)]
  if (here !== undefined && here < revision)
    return [doubtful('copy', `${path} has revision ${revision}, but the store is at ${here}`, help)]
  return [fine('copy', `${path} has revision ${revision}`)]
}

async function sealKeyFinding(
  folder: string | undefined,
  facts: StoreFacts | undefined,
  given: string | undefined
): Promise<Finding> {
  const path = folder === undefined ? undefined : join(folder, 'seal.key')
  try {
    const file = path === undefined || given !== undefined ? undefined : await readPrivateFile(path)
    if (file === 'exposed')
      return wrong('keys', `other users can read ${path}`, `chmod 600 ${path}; then "sluice seal rotate"`)
    const text = given ?? file?.toString()
    const needed = facts?.secrets === true ? facts.sealKey : null
    const place = given === undefined ? path : 'SLUICE_SEAL_KEY'
    const back = `restore the key of the store as ${path ?? 'SLUICE_SEAL_KEY'} from a backup; if it is lost for good, start once with --new-seal-key`
    if (text === undefined) {
      if (facts?.secrets === true) return wrong('keys', `the sealing key is missing, but the store has secrets`, back)
      return fine('keys', 'no sealing key yet; the first start creates it')
    }
    const { id } = parseSealKey(text)
    if (needed !== null && needed !== id) {
      return wrong('keys', `the secrets of the store are encrypted with key ${needed}, but ${place} is key ${id}`, back)
    }
    return fine('keys', `${place} is the sealing key ${id}`)
  } catch (error) {
    return wrongBy('keys', failureText(error), 'restore the key from a backup')
  }
}

const DAY = 86_400_000
/** The bit of a file's mode that lets every user read it. */
const FOR_ALL = 0o004
/** Time before expiry for a warning (days): early enough for a manual renewal, and a sign that an automatic one has failed. */
const SOON = 14

function validity(name: string, notAfter: number, now: number): Finding {
  const days = Math.floor((notAfter - now) / DAY)
  const date = new Date(notAfter).toISOString().slice(0, 10)
  const help = 'replace it; for a managed certificate see "sluice certificates" and "sluice domains verify"'
  if (notAfter <= now) return wrong('certificates', `${name} ended on ${date}`, help)
  if (days < SOON) return doubtful('certificates', `${name} ends on ${date}, in ${days} days`, help)
  return fine('certificates', `${name} is valid until ${date}`)
}

/** The certificates of the store, of the listener for agents, and of the files that are named. */
export async function checkCertificates(
  { data, agents_certificate, agents_key }: Pick<Options, 'data' | 'agents_certificate' | 'agents_key'>,
  facts: StoreFacts | undefined,
  files: readonly string[],
  now: number
): Promise<Finding[]> {
  const stored = (facts?.certificates ?? []).map(({ id, notAfter }) => validity(id, Date.parse(notAfter), now))
  const own = data === IN_MEMORY ? [] : await pemFiles(join(data, 'agents'))
  const named = [agents_certificate, agents_key].filter((file) => file !== undefined)
  const findings = [...stored]
  for (const file of new Set([...own, ...named, ...files])) findings.push(...(await validityOf(file, now)))
  const bad = findings.filter(({ status }) => status !== 'ok')
  // A store may have thousands of them.
  return bad.length > 0 ? bad : [fine('certificates', `${findings.length} checked, none expires within ${SOON} days`)]
}

async function pemFiles(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  return names.filter((name) => name.endsWith('.pem')).map((name) => join(folder, name))
}

/** Checks a certificate or private key; a file with neither gives no finding. */
async function validityOf(file: string, now: number): Promise<Finding[]> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    return [wrongBy('certificates', `${file}: ${fileReason(error)}`, 'let the user of the process read it')]
  }
  if (text.includes('PRIVATE KEY-----') && ((await stat(file)).mode & FOR_ALL) !== 0) {
    const help = `run chmod o-r ${file}, and renew the key if others may have seen it`
    return [doubtful('certificates', `every user of this machine can read the private key ${file}`, help)]
  }
  if (!text.includes('-----BEGIN CERTIFICATE-----')) return []
  try {
    return [validity(file, Date.parse(new X509Certificate(text).validTo), now)]
  } catch {
    return [wrong('certificates', `${file} is not a certificate`, 'replace it with a PEM file')]
  }
}

/** Site file and policy of the options, as `sluice check` finds them; with the files that the site file names. */
export async function checkFilesOf(
  { site_file, policy }: Pick<Options, 'site_file' | 'policy'>,
  environment: Readonly<Record<string, string | undefined>>
): Promise<{ findings: Finding[]; named: string[]; listeners: HostPort[] }> {
  const findings: Finding[] = []
  const named: string[] = []
  const listeners: HostPort[] = []
  for (const [check, file] of [
    ['site file', site_file],
    ['policy', policy]
  ] as const) {
    if (file === undefined) continue
    const found = await checkFile(file, environment)
    named.push(...found.named)
    listeners.push(...(found.listeners ?? []))
    const problems = found.findings.flatMap((one) => one.problems.map((problem) => ({ ...problem, file: one.file })))
    for (const { file: source, line, column, severity, message } of problems) {
      const text = `${source}:${line}:${column}: ${message}`
      const help = `"sluice check ${shellWord(file)}" shows the place`
      findings.push(severity === 'error' ? wrong(check, text, help) : doubtful(check, text, help))
    }
    if (problems.length === 0) findings.push(fine(check, `${file} is valid`))
  }
  return { findings, named, listeners }
}
