import { posix } from 'node:path'
import t from 'tap'
import { newVersionKey, readSiteFile } from '../../../src/capabilities/site-file/declared/site-file.js'
import { type SiteFileInput, uncheckedPolicies } from '../../../src/capabilities/site-file/declared/site-input.js'
import { systemClock } from '../../../src/lib/clock.js'
import { readListener } from '../../../src/options/values.js'
import { random as seeded, whole } from '../../features/rate-limit/limiter/support/random.js'

const ROOT = '/etc/sluice'
const versionKey = newVersionKey()

/** Reads `sluice.yaml` among these files, by their names. */
function read(files: Readonly<Record<string, string>>, about: Partial<SiteFileInput> = {}) {
  const gone = (path: string) => Object.assign(new Error(path), { code: 'ENOENT' })
  return readSiteFile({
    source: 'sluice.yaml',
    folder: ROOT,
    text: files['sluice.yaml'] ?? '',
    environment: {},
    async readFile(path) {
      const found = files[posix.relative(ROOT, path)]
      if (found === undefined) throw gone(path)
      return found
    },
    async listFolder(path) {
      const folder = posix.relative(ROOT, path) || '.'
      const found = Object.keys(files).filter((name) => posix.dirname(name) === folder)
      if (found.length === 0) throw gone(path)
      return found.map((name) => posix.basename(name))
    },
    policyProblems: uncheckedPolicies,
    readListener,
    opened: new Map(),
    clock: systemClock,
    versionKey,
    zone: 'localhost',
    refuseExpired: true,
    policed: new Set(),
    ...about
  })
}

async function problemsOf(files: Readonly<Record<string, string>>): Promise<string[]> {
  const { problems } = await read(files)
  return problems.flatMap((one) =>
    one.problems.map(({ line, column, code, message }) => `${one.source}:${line}:${column} ${code} ${message}`)
  )
}

const sorted = (map: ReadonlyMap<string, string> | undefined) => [...(map ?? [])].sort(([a], [b]) => (a < b ? -1 : 1))
const site = (name: string, more = '') => `  ${name}:\n    backend: web\n${more}`
const WEB = 'backends:\n  web:\n    servers:\n      - http://127.0.0.1:3\n'

t.test('files that are imported are one with the file that names them, and paths in them are their own', async (t) => {
  const files = {
    'sluice.yaml': `import:\n  - sites/*.yaml\n  - /etc/sluice/web.yaml\nlisteners: [8081]\nsites:\n${site('main.test')}`,
    'web.yaml': WEB,
    'sites/a.yaml': `listeners: [8082]\nsites:\n${site('a.test', '    policy: policies/p.yaml\n')}`,
    'sites/b.yaml': `include: more/c.yaml\nsites:\n${site('b.test', '    policy:\n      on_http_request: []\n')}x-a: 1`,
    'sites/b.yml': 'nothing: of it',
    'sites/more/c.yaml': `sites:\n${site('c.test')}vaults:\n  v:\n    k: { file: ../secret }\n`,
    'sites/policies/p.yaml': 'on_http_request: []\n',
    'sites/secret': 'hunter2\n'
  }
  const { file, problems, files: named } = await read(files)
  t.same(problems, [])
  t.same(
    named.map((path) => posix.relative(ROOT, path)).sort(),
    ['sites/a.yaml', 'sites/b.yaml', 'sites/more/c.yaml', 'sites/policies/p.yaml', 'sites/secret', 'web.yaml'],
    'all of them are watched'
  )
  const places = file?.records
    .filter(({ resource }) => resource.name === 'https_edge')
    .map(({ name, file, line }) => [name[0], file, line])
  t.same(
    [...new Set(places?.map((place) => JSON.stringify(place)))],
    [
      '["main.test",null,6]',
      '["a.test","sites/a.yaml",3]',
      '["b.test","sites/b.yaml",3]',
      '["c.test","sites/more/c.yaml",2]'
    ].map((place) => place)
  )
  t.match(file?.listeners, [{ line: 4 }, { file: 'sites/a.yaml', line: 1 }])
  const sources = [...(file?.units.values() ?? [])].flatMap((unit) => (unit.kind === 'policy' ? [unit.source] : []))
  t.same(sources, ['sites/policies/p.yaml', 'sites/b.yaml:6'])
})

t.test('a file in parts means what it means in one, whatever stands where', async (t) => {
  const random = seeded(20_261_128)
  for (let round = 0; round < 40; round++) {
    const sites = Array.from({ length: whole(random, 1, 12) }, (_, n) =>
      site(`s${n}.test`, random() < 0.3 ? '    policy:\n      on_http_request: []\n' : '')
    )
    const parts: string[][] = [[], [], []]
    for (const one of sites) parts[whole(random, 0, 2)]?.push(one)
    const text = (part: readonly string[] = []) => (part.length === 0 ? 'sites: {}\n' : `sites:\n${part.join('')}`)
    const cut = {
      'sluice.yaml': `import: [a.yaml]\n${text(parts[0])}${WEB}`,
      'a.yaml': `${text(parts[1])}import: b.yaml`,
      'b.yaml': text(parts[2])
    }
    const [one, other] = [await read({ 'sluice.yaml': text(sites) + WEB }), await read(cut)]
    t.same(other.problems, one.problems)
    t.same(sorted(other.file?.contents), sorted(one.file?.contents), JSON.stringify(cut))
  }
})

t.test(
  'each problem is told in its file; what stands twice, loops, and what is too deep or not there is one',
  async (t) => {
    const deep = Object.fromEntries(
      Array.from({ length: 14 }, (_, n) => [
        n === 0 ? 'sluice.yaml' : `f${n}.yaml`,
        `import: f${n + 1}.yaml\nsites: {}\n`
      ])
    )
    t.match(await problemsOf(deep), [/^f10\.yaml:1:9 FIELD_INVALID "f11\.yaml" is imported more than 10 files deep/])
    const many = 'import: ["x*.yaml"]\nsites: {}\n'
    const cases: [files: Readonly<Record<string, string>>, problems: RegExp[]][] = [
      [{ 'sluice.yaml': 'import: a.yaml\n', 'a.yaml': 'sites:\n  a.test: wbe\n' }, [/^a\.yaml:2:11 NAME_UNKNOWN/]],
      [
        { 'sluice.yaml': `import: a.yaml\nsites:\n${site('a.test')}${WEB}`, 'a.yaml': 'sites: { A.test: web }\n' },
        [/^a\.yaml:1:10 ALREADY_EXISTS .*taken by site a\.test in line 3/]
      ],
      [
        {
          'sluice.yaml': `import: [a.yaml, b.yaml]\n${WEB}`,
          'a.yaml': WEB,
          'b.yaml': `acme: {agree_to_terms: true}\n`
        },
        [/^a\.yaml:2:3 ALREADY_EXISTS another file has "web" under backends already/]
      ],
      [
        { 'sluice.yaml': 'import: a.yaml\nacme: {agree_to_terms: true}\n', 'a.yaml': 'acme: {agree_to_terms: true}\n' },
        [/^a\.yaml:1:1 ALREADY_EXISTS another file has acme already/]
      ],
      [
        { 'sluice.yaml': 'import: a.yaml\n', 'a.yaml': 'import: ./a.yaml\n' },
        [/^a\.yaml:1:9 FIELD_INVALID "a\.yaml" imports itself: sluice\.yaml > a\.yaml > a\.yaml/]
      ],
      [{ 'sluice.yaml': 'import: a.yaml\n', 'a.yaml': 'import: sluice.yaml\n' }, [/^a\.yaml:1:9 .*imports itself/]],
      [
        { 'sluice.yaml': 'import: [a.yaml, a.yaml]\n', 'a.yaml': 'sites: {}\n' },
        [/^sluice\.yaml:1:18 .*imported already/]
      ],
      [
        { 'sluice.yaml': 'import: no.yaml\n' },
        [/^sluice\.yaml:1:9 FILE_UNREADABLE "no\.yaml" cannot be read: there is no/]
      ],
      [{ 'sluice.yaml': many }, [/^sluice\.yaml:1:10 FILE_UNREADABLE no file is called "x\*\.yaml"/]],
      [{ 'sluice.yaml': 'import: no/*.yaml\nsites: {}\n' }, [/FILE_UNREADABLE "no" cannot be read/]],
      [{ 'sluice.yaml': 'import: "*/a.yaml"\nsites: {}\n' }, [/FIELD_INVALID a star stands in the last part/]],
      [{ 'sluice.yaml': 'import: 5\nsites: {}\n' }, [/^sluice\.yaml:1:9 FIELD_INVALID import names files/]],
      [{ 'sluice.yaml': 'import: a.yaml\n', 'a.yaml': '' }, [/DOCUMENT_EMPTY "a\.yaml" says nothing/]],
      [
        { 'sluice.yaml': 'import: a.yaml\n', 'a.yaml': 'sites: {}\nsits: {}\n' },
        [/^a\.yaml:2:1 FIELD_UNKNOWN .*"sites"/]
      ]
    ]
    for (const [files, expected] of cases) t.match(await problemsOf(files), expected, JSON.stringify(files))
    for (const [files, expected] of cases)
      t.equal((await problemsOf(files)).length, expected.length, JSON.stringify(files))
  }
)

t.test('a file that is no site file may be a secret: nothing of its text is told', async (t) => {
  const secrets = [
    'hunter2',
    'password: hunter2\n',
    'hunter2: 1\nhunter2: 2\n',
    'a: !hunter2 b\n',
    '- hunter2\n- [hunter2',
    '"hunter2": {\n',
    '-----BEGIN PRIVATE KEY-----\nhunter2==\n-----END PRIVATE KEY-----\n',
    '&hunter2 *hunter2\n',
    'sites: {}\nhunter2: &a [*a]\nsites: hunter2\n'
  ]
  for (const secret of secrets) {
    const { problems, file } = await read({ 'sluice.yaml': 'import: key.pem\nsites: {}\n', 'key.pem': secret })
    t.equal(file, undefined, secret)
    t.notMatch(JSON.stringify(problems), /hunter2/, secret)
    t.ok(problems.every(({ source }) => source === 'sluice.yaml'))
  }
})
