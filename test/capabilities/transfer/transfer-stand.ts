import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { everyRecord, Records } from '../../../src/control/records.js'
import { openSealer } from '../../../src/control/seal-key.js'
import { parseSealKey, Sealer, sealedBy } from '../../../src/lib/seal.js'
import { resources } from '../../../src/resources/registry.js'
import type { Store } from '../../../src/store/store.js'
import { runCommand } from '../../cli/command.js'
import type { Ended, SluiceProcess } from '../../cli/process.js'
import { idOf } from '../../resources/bench.js'
import { MARK } from '../../resources/bodies.js'
import { opened, operation } from '../../store/opened.js'

/** A host whose policy answers 299. */
export const SITE = `format: sluice-account/1
records:
  https_edge:
    - id: edghts_1
      fields: { hostports: ["shop.example.com:443"] }
  https_edge_route:
    - id: edghtsrt_1
      fields:
        edge_id: edghts_1
        match: /
        traffic_policy:
          value: |
            on_http_request:
              - actions:
                  - type: custom-response
                    config: { status_code: 299 }
`

/** A folder with a document in it; `data` is not there yet. */
export async function folder(t: Test, text: string): Promise<{ cwd: string; data: string; file: string }> {
  const cwd = t.testdir()
  const file = join(cwd, 'account.yaml')
  await writeFile(file, text)
  return { cwd, data: join(cwd, 'data'), file }
}

/** Runs one command to its end. */
export async function sluice(
  t: Test,
  cwd: string,
  words: readonly string[],
  env: Record<string, string> = {}
): Promise<Ended> {
  return await runCommand(t, words, { cwd, env })
}

/** The key file of a data folder, made when it is missing. */
export async function sealerIn(folder: string): Promise<Sealer> {
  return await openSealer({ given: undefined, folder, lasting: true })
}

/** Opens a store for a moment. */
export async function withStore<T>(t: Test, address: string, run: (store: Store) => Promise<T>): Promise<T> {
  const { store } = await opened(t, address)
  try {
    return await run(store)
  } finally {
    await store.close()
  }
}

/** Many vault secrets in one vault, sealed. */
export async function manySecrets(store: Store, seal: Sealer, count: number): Promise<void> {
  const records = new Records(seal)
  const vault = idOf('vault')
  await store.transact(operation(), async (tx) => {
    await tx.insert({ kind: 'vault', id: vault, body: { name: 'main', description: '', metadata: '' } })
    await tx.insertMany(
      Array.from({ length: count }, (_, number) => {
        const body = { name: `s${number}`, description: '', metadata: '', value: true, vault }
        const record = {
          kind: 'vault_secret',
          id: idOf('secret', number),
          createdAt: '',
          body,
          secrets: { value: `${MARK} ${number}` }
        }
        return { kind: record.kind, id: record.id, ...records.stored(record) }
      })
    )
  })
}

/** The keys that a process which starts in the folder may use: the one in place, and the one that is to take over. */
export async function keysOn(folder: string): Promise<Sealer[]> {
  const texts = await Promise.all(
    [join(folder, 'seal.key'), join(folder, 'seal.next', 'seal.key')].map((path) =>
      readFile(path, 'utf8').catch(absent)
    )
  )
  return texts.filter((text) => text !== '').map((text) => new Sealer(parseSealKey(text)))
}

function absent(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') return ''
  throw error
}

/** Every sealed value opens with one of the keys, and holds what it held. Answers with the ids of the keys in use. */
export async function allOpen(t: Test, store: Store, keys: readonly Sealer[], count: number): Promise<Set<string>> {
  const used = new Set<string>()
  let found = 0
  for (const { name } of resources) {
    for await (const page of everyRecord(store, name)) {
      for (const stored of page) {
        if (stored.sealed === null) continue
        const id = sealedBy(stored.sealed)
        const key = keys.find(({ keyId }) => keyId === id)
        if (key === undefined) throw new Error(`${stored.id} is under ${id}, which is on no disk`)
        const { record } = new Records(key).open(stored)
        if (record.secrets.value?.startsWith(MARK) !== true) throw new Error(`${stored.id} holds something else`)
        used.add(id)
        found++
      }
    }
  }
  t.equal(found, count, 'every secret is there')
  return used
}

export const freshKey = () => randomBytes(32).toString('hex')

/** Resolves when the process has printed a line; rejects when it ends before. */
export async function printed({ child }: SluiceProcess, line: string): Promise<void> {
  let text = ''
  await new Promise<void>((resolve, reject) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString()
      if (text.split('\n').includes(line)) resolve()
    })
    child.once('close', () => reject(new Error(`it ended without ${line}: ${text}`)))
  })
}
