import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { policyProblems } from '../../../src/app/policy-check.js'
import { offline, policyServices } from '../../../src/app/services.js'
import {
  newVersionKey,
  readSiteFile,
  type SiteFileRead
} from '../../../src/capabilities/site-file/declared/site-file.js'
import type { SiteFileInput } from '../../../src/capabilities/site-file/declared/site-input.js'
import { SiteMemory } from '../../../src/capabilities/site-file/declared/site-memory.js'
import { actions } from '../../../src/features/registry.js'
import { systemClock } from '../../../src/lib/clock.js'
import { readListener } from '../../../src/options/values.js'

const check = policyProblems(policyServices(offline(actions)), actions)
const versionKey = newVersionKey()
const answering = (body: string) =>
  `on_http_request: [{ actions: [{ type: custom-response, config: { body: ${body} } }] }]`

/** What surrounds a site file, with the policies that were checked for it. */
interface Surroundings {
  readonly files: Record<string, string>
  readonly environment: Record<string, string>
  policed: ReadonlySet<string>
}

async function read(text: string, { files, environment, policed }: Surroundings, memory?: SiteMemory) {
  let checked = 0
  const input: SiteFileInput = {
    source: 'sluice.yaml',
    folder: '/etc/sluice',
    text,
    environment,
    async readFile(path) {
      const found = files[path.replace('/etc/sluice/', '')]
      if (found === undefined) throw Object.assign(new Error(path), { code: 'ENOENT' })
      return found
    },
    policyProblems(text, layer) {
      checked++
      return check(text, layer)
    },
    listFolder: async () => [],
    readListener,
    opened: new Map(),
    clock: systemClock,
    versionKey,
    zone: 'localhost',
    refuseExpired: true,
    policed,
    process: { agreed: false, tls: true },
    ...(memory === undefined ? {} : { memory })
  }
  return { read: await readSiteFile(input), checked: () => checked }
}

/** Everything that a reading says, as data. Times and what is drawn are left out. */
function meaning({ file, problems, files }: SiteFileRead): unknown {
  if (file === undefined) return { problems, files: [...files].sort() }
  const { records, units, secrets, contents, policies, policyOf, policed, certificates, byId, claims } = file
  const sorted = (map: ReadonlyMap<string, unknown>) => [...map].sort(([a], [b]) => (a < b ? -1 : 1))
  return {
    problems,
    files: [...files].sort(),
    records: records.map(({ record: { id, body, secrets }, label, name, line }) => [
      id,
      body,
      secrets,
      label,
      name,
      line
    ]),
    ids: [...byId.keys()].sort(),
    claims: sorted(claims).map(([claim, of]) => [claim, (of as { readonly line: number }).line]),
    units: sorted(units),
    secrets: sorted(secrets),
    contents: sorted(contents),
    policies: [...policies].sort((a, b) => a.line - b.line || (a.name < b.name ? -1 : 1)),
    policyOf: sorted(policyOf),
    policed: [...policed].sort(),
    certificates
  }
}

/** Numbers below `below`, the same ones for each seed. */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return (state >>> 8) % below
  }
}

const next = numbers(5)
const pick = <T>(from: readonly T[]): T => from[next(from.length)] as T

function policyLines(indent: string): string[] {
  return [
    `${indent}on_http_request:`,
    `${indent}  - expressions: ["req.method == '${pick(['GET', 'PUT'])}'"]`,
    `${indent}    actions:`,
    `${indent}      - type: ${next(30) === 0 ? 'denny' : 'deny'}`
  ]
}

/** A site as people write it, right or wrong. */
function site(name: string): string {
  const lines = [`  ${name}:`]
  const kind = next(8)
  if (kind === 0) return `  ${name}: ${next(9) === 0 ? 'nothing' : pick(['web', 'http://10.0.0.1:80'])}\n`
  if (kind === 1) lines.push(`    hosts: [${next(40)}.other.test]`)
  if (kind < 4) lines.push('    policy:', ...policyLines('      '))
  if (kind === 4) lines.push(`    policy: ${next(9) === 0 ? 'gone.yaml' : pick(['one.yaml', 'two.yaml', 'none'])}`)
  if (kind === 5) {
    lines.push(
      '    routes:',
      '      /api/:',
      '        backend: http://10.0.0.1:80',
      '        policy:',
      ...policyLines('          ')
    )
    lines.push('      /: web', '    # the last line of the site')
  } else lines.push(`    backend: ${pick(['web', 'http://10.0.0.1:80', 'http://10.0.0.2:80', '[http://10.0.0.3:80]'])}`)
  if (kind === 6) {
    lines.push('    webhook_verification: { provider: github, secret: { env: TOKEN } }')
  }
  return `${lines.join('\n')}\n${pick(['', '', '\n', '  # a comment\n'])}`
}

const nameOf = (lines: string) => /^ {2}([^:]+):/.exec(lines)?.[1] ?? 'other.test'

const HEADS = ['', '# one more line\n', 'backends:\n  web: { servers: [http://127.0.0.1:1] }\n', '\n\n']
const BEHIND = 'backends:\n  web: { servers: [http://127.0.0.1:1] }\n'
const names = Array.from({ length: 9 }, (_, n) => `site-${n}.test`)

t.test('what is remembered of a reading means what a first reading finds', async (t) => {
  const memory = new SiteMemory()
  const around: Surroundings = {
    files: { 'one.yaml': answering('one'), 'two.yaml': answering('two') },
    environment: { TOKEN: 'a-token-0123456789' },
    policed: new Set()
  }
  let sites = names.map((name) => site(name))
  let [accepted, refused] = [0, 0]
  for (let round = 0; round < 90; round++) {
    const kind = next(10)
    const at = next(sites.length)
    if (kind < 5) sites[at] = site(next(20) === 0 ? pick(names) : nameOf(sites[at] as string))
    else if (kind === 5) sites = [...sites.slice(0, at), site(`new-${round}.test`), ...sites.slice(at)]
    else if (kind === 6) sites = sites.filter((_, index) => index !== at || sites.length < 4)
    else if (kind === 7) around.files['one.yaml'] = answering(`one-${next(3)}`)
    else if (kind === 8) around.environment.TOKEN = `a-token-${next(3)}-0123456789`
    else sites.sort((a, b) => (a < b ? -1 : 1))
    const head = pick(HEADS)
    const text = `${head}sites:\n${sites.join('')}${head.includes('backends') ? '' : BEHIND}`
    const remembered = (await read(text, around, memory)).read
    const first = (await read(text, around)).read
    const [known, anew] = [meaning(remembered), meaning(first)]
    if (!isDeepStrictEqual(known, anew))
      return t.strictSame(
        known,
        anew,
        `round ${round}:
${text}`
      )
    if (first.file === undefined) refused++
    else {
      accepted++
      if (next(2) === 0) around.policed = first.file.policed
    }
    // A wrong site does not stay for ever.
    if (first.file === undefined) sites = sites.map((one) => (next(4) === 0 ? one : site(nameOf(one))))
  }
  t.ok(accepted > 10 && refused > 10, `${accepted} accepted, ${refused} refused`)
  return undefined
})

t.test('a file that the library has to read means the same', async (t) => {
  const around = {
    files: { 'one.yaml': answering('one'), 'two.yaml': answering('two') },
    environment: { TOKEN: 'a-token-0123456789' },
    policed: new Set<string>()
  }
  for (let round = 0; round < 20; round++) {
    const text = `sites:\n${names.map((name) => site(name)).join('')}${BEHIND}`
    const [here, library] = [await read(text, around), await read(`${text}...\n`, around)]
    if (!t.strictSame(withoutTexts(meaning(here.read)), withoutTexts(meaning(library.read)), text)) return
  }
})

/** The texts of files are another in the two forms, and so is what is shown of them. */
function withoutTexts(meant: unknown): unknown {
  return JSON.parse(JSON.stringify(meant, (key, value) => (key === 'text' ? undefined : value)))
}

t.test('one changed site is read again, and no other, wherever its lines stand now', async (t) => {
  const around = { files: {}, environment: {}, policed: new Set<string>() }
  const many = (marker: string) =>
    names
      .map((name, n) => `  ${name}:\n    backend: web\n    policy:\n      ${answering(n === 4 ? marker : 'same')}\n`)
      .join('')
  const memory = new SiteMemory()
  const text = (marker: string, before = '') => `${before}${BEHIND}sites:\n${many(marker)}`
  t.equal((await read(text('a'), around, memory)).checked(), names.length)
  const again = await read(text('b'), around, memory)
  t.equal(again.checked(), 1)
  const units = again.read.file?.units
  const third = await read(text('b').replace('sites:\n', 'sites:\n  # a line more\n'), around, memory)
  t.equal(third.checked(), names.length, 'what stands around the sites has changed')
  const longer = await read(
    text('b')
      .replace('sites:\n', 'sites:\n  # a line more\n')
      .replace('  site-0.test:\n', '  site-0.test:\n    hosts: []\n'),
    around,
    memory
  )
  t.equal(longer.checked(), 1)
  const same = (await read(text('b'), around)).read.file?.units
  t.strictSame([...(units ?? [])].sort(), [...(same ?? [])].sort())
})
