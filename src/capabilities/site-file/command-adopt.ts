import { createWriteStream } from 'node:fs'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { stringify } from 'yaml'
import { commandErrors } from '../../app/errors.js'
import { type ApiAccess, apiAccess, askApi, sendTo, unusable } from '../../cli/api-client.js'
import { ExitCode } from '../../cli/process.js'
import { explained, openPlace, type StoreFlags, sealerOf, storePlace } from '../../cli/store-place.js'
import { Records } from '../../control/records.js'
import { CodedError, codeOf } from '../../lib/errors.js'
import { makeFolder, replaceFile } from '../../lib/files.js'
import { printable } from '../../lib/printable.js'
import { shellWord } from '../../lib/shell-word.js'
import type { Store } from '../../store/store.js'
import type { Adoption, LeftOut, NeededSecret } from './declared/adoption-form.js'

export interface AdoptFlags extends StoreFlags {
  readonly api: string
  readonly withKeys?: boolean
}

const SITE_NAME = 'sites.yaml'
const RECORDS_NAME = 'records.json'

/** Exports the API's configuration of a running process as a site file into a new folder; resolves with the exit code. */
export async function adopt(folder: string, { api, withKeys, ...store }: AdoptFlags): Promise<number> {
  const access = apiAccess(api, process.env)
  if (typeof access === 'string') {
    console.error(access)
    return ExitCode.usage
  }
  try {
    await mustBeEmpty(folder)
    const [adoption, applied] = await Promise.all([adoptionAt(access), appliedAt(access)])
    const values = withKeys === true ? await secretsOf(access, adoption.secrets, store) : new Map<string, string>()
    await writeFolder(folder, adoption, values)
    report(folder, adoption, { values, applied, api })
    return ExitCode.ok
  } catch (error) {
    return explained(error, 'nothing was adopted')
  }
}

async function mustBeEmpty(folder: string): Promise<void> {
  const there = await readdir(folder).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error
    return []
  })
  if (there.length > 0) throw new CodedError(commandErrors.FILE_EXISTS, `${folder} is not empty; name a new folder`)
}

async function adoptionAt(access: ApiAccess): Promise<Adoption> {
  const { status, body } = await askApi(access, '/site/adoption')
  if (status !== 200) throw unusable(access, `answered with ${String(body.error_code ?? status)}: ${String(body.msg)}`)
  return body as unknown as Adoption
}

/** Returns the site file being served; undefined if there is none. */
async function appliedAt(access: ApiAccess): Promise<string | undefined> {
  const { body } = await askApi(access, '/site')
  return typeof body.file === 'string' ? body.file : undefined
}

/**
 * Returns the values of secrets by the names of their files. API responses do not contain them: they are read from the
 * store, or from the copy that `GET /backup` returns if a process owns the store, and decrypted with the local sealing key.
 */
async function secretsOf(
  access: ApiAccess,
  needed: readonly NeededSecret[],
  flags: StoreFlags
): Promise<ReadonlyMap<string, string>> {
  const place = await storePlace(flags)
  if (place === undefined) throw new CodedError(commandErrors.API_UNUSABLE, 'the store is not known')
  if (!place.isFile) return await reading(await openPlace(place, { make: false }))
  const copy = await mkdtemp(join(tmpdir(), 'sluice-adopt-'))
  try {
    const address = join(copy, 'store.db')
    await download(access, address)
    return await reading(await openPlace({ ...place, address }, { make: false }))
  } finally {
    await rm(copy, { recursive: true, force: true })
  }

  async function reading(store: Store): Promise<ReadonlyMap<string, string>> {
    try {
      const records = new Records(await sealerOf(place as NonNullable<typeof place>, store))
      const values = new Map<string, string>()
      for (const { file, resource, id, path } of needed) {
        const value = (await records.find(store, resource, id))?.record.secrets[path]
        if (value !== undefined) values.set(file, value)
      }
      return values
    } finally {
      await store.close()
    }
  }
}

async function download(access: ApiAccess, to: string): Promise<void> {
  const answer = await sendTo(access, '/backup', {})
  if (answer.status !== 200 || answer.body === null) {
    throw unusable(access, `gives no copy of its store (status ${answer.status}); name the store with --store`)
  }
  await pipeline(answer.body, createWriteStream(to, { mode: 0o600 }))
}

async function writeFolder(folder: string, adoption: Adoption, values: ReadonlyMap<string, string>): Promise<void> {
  for (const { name, text } of adoption.files) await write(name, (path) => writeFile(path, text))
  for (const [name, value] of values) await write(name, (path) => replaceFile(path, value))
  await write(RECORDS_NAME, (path) =>
    writeFile(path, `${JSON.stringify({ records: adoption.records }, undefined, 2)}\n`)
  )
  // Last, so that an interrupted command leaves none.
  await write(SITE_NAME, (path) => writeFile(path, siteText(adoption)))

  async function write(name: string, to: (path: string) => Promise<void>): Promise<void> {
    const path = join(folder, name)
    makeFolder(dirname(path))
    await to(path)
  }
}

function siteText({ site, left }: Adoption): string {
  const lines = ['Configuration of the management API, exported as a site file.']
  if (left.length > 0) lines.push('Not exported, or exported with changes:', ...left.map((one) => `  ${leftLine(one)}`))
  const comment = lines.map((line) => `# ${line}\n`).join('')
  return `${comment}${stringify(site, { lineWidth: 0, aliasDuplicateObjects: false })}`
}

function leftLine({ resource, id, why }: LeftOut): string {
  return printable(`${resource} ${id} ${why}`)
}

interface Reported {
  readonly values: ReadonlyMap<string, string>
  readonly applied: string | undefined
  readonly api: string
}

function report(folder: string, { site, secrets, records, left }: Adoption, { values, applied, api }: Reported): void {
  const file = join(folder, SITE_NAME)
  const count = (key: string) => Object.keys((site[key] ?? {}) as object).length
  console.log(`${printable(file)}: ${count('sites')} sites, ${count('tcp')} TCP edges, ${count('backends')} backends`)
  for (const one of left) console.log(`left: ${leftLine(one)}`)
  const missing = secrets.filter((one) => !values.has(one.file))
  for (const one of missing) {
    console.log(printable(`provide: ${join(folder, one.file)} (${one.path} of ${one.resource} ${one.id})`))
  }
  if (applied !== undefined) {
    console.log(
      printable(
        `the process already serves the site file ${applied}, which this one would replace: merge the two files`
      )
    )
  }
  const how = `--adopt ${shellWord(join(folder, RECORDS_NAME))} --api ${shellWord(api)}`
  const named = shellWord(file)
  const replaced = records.length === 1 ? '1 record' : `${records.length} records`
  console.log(`To replace ${replaced} of the API with the file in one step:`)
  console.log(`  sluice check ${named}\n  sluice plan ${named} ${how}\n  sluice apply ${named} ${how}`)
}
