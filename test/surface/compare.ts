import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FakeProvider } from '../features/login/fake-provider.js'
import { Build } from './build.js'
import { carryOn, echo, exported, imported, record } from './compare-recording.js'
import type { Recording } from './compare-requests.js'
import { difference, withoutChance } from './recorded.js'

/**
 * Compares two builds by what they do: `npm run compare -- OLD [NEW]`, each the folder of a `main.js` (NEW: dist-test/src).
 *
 * Both run the same commands, traffic, logins and API calls, one after the other, each on a data folder of its own. Then NEW opens
 * a copy of OLD's data folder and imports OLD's account. What differs is printed after ids, times, ports and random texts
 * have been made the same. Exit code: 0 no difference, 1 differences, 2 wrong usage. It must run in the root of the project.
 */

/** A recording without what is random, and without the folder that it was made in. */
function normal(recording: Recording, folder: string): Map<string, string> {
  const one = withoutChance(folder)
  return new Map([...recording].map(([name, text]) => [one(name), one(text)]))
}

interface Line {
  readonly what: string
  readonly found: string
}

function compared(old: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): Line[] {
  return [...new Set([...old.keys(), ...now.keys()])].map((what) => ({
    what,
    found: difference(old.get(what) ?? '<nothing>', now.get(what) ?? '<nothing>')
  }))
}

function print(lines: readonly Line[]): boolean {
  const different = lines.filter(({ found }) => found !== '')
  for (const { what, found } of different) console.log(`| ${what}\n${found.replace(/^/gm, '|   ')}`)
  console.log(`${lines.length} compared, ${different.length} different`)
  return different.length > 0
}

async function compare(oldFolder: string, newFolder: string): Promise<boolean> {
  const [older, newer] = [new Build(oldFolder), new Build(newFolder)]
  const folder = await mkdtemp(join(tmpdir(), 'sluice-compare-'))
  const undo: (() => unknown)[] = [() => rm(folder, { recursive: true, force: true })]
  try {
    const { server, url } = await echo()
    undo.push(
      () => server.close(),
      () => server.closeAllConnections()
    )
    const provider = await new FakeProvider().start({ teardown: (run) => void undo.push(run) })
    const around = { upstream: url, provider }
    const cookies: string[] = []
    const at = (name: string) => join(folder, name)
    const before = await record(older, at('old'), around, cookies)
    const after = await record(newer, at('new'), around, [])
    const data = join(at('old'), 'data')
    const kept = await carryOn(older, at('old'), at('kept'), around, cookies)
    const carried = await carryOn(newer, at('old'), at('carried'), around, cookies)
    const account = await exported(older, data, folder)
    const back = await imported(older, older, data, at('back'))
    const over = await imported(older, newer, data, at('over'))
    return print([
      ...compared(normal(before, at('old')), normal(after, at('new'))),
      ...compared(normal(kept, at('kept')), normal(carried, at('carried'))),
      ...compared(normal(back, at('back')), normal(over, at('over'))),
      {
        what: 'records after the import',
        found: difference(recordsOf(account), recordsOf(over.get('account after the import') ?? ''))
      },
      { what: 'a carried session is accepted, an ended one is not', found: sessions(carried) }
    ])
  } finally {
    for (const run of undo.reverse()) await run()
  }
}

/** The records of a document: all after its head, which names the revision. */
function recordsOf(document: string): string {
  return document.slice(document.indexOf('records:'))
}

function sessions(carried: Recording): string {
  const [held, ended] = [carried.get('carried session'), carried.get('carried ended session')]
  return held?.startsWith('200') === true && ended?.startsWith('302') === true ? '' : `${held} and ${ended}`
}

const [older, newer = join('dist-test', 'src')] = process.argv.slice(2)
if (older === undefined) {
  console.error('usage: npm run compare -- OLD [NEW], each a folder with a main.js')
  process.exitCode = 2
} else process.exitCode = (await compare(older, newer)) ? 1 : 0
