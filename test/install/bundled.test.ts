import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import t from 'tap'

const { TOOLS } = createRequire(`${process.cwd()}/`)('./config/bundled.cjs') as { TOOLS: readonly string[] }
const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
  packages: Record<string, { os?: string[]; cpu?: string[]; libc?: string[] }>
}
const { devDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as { devDependencies: object }
/** Most packages that `npm ci` may install on Linux x64. */
const MOST = 450

t.test('tools of tests are no part of an installation without development packages', async (t) => {
  const bundled = Object.keys(devDependencies).filter((name) => !TOOLS.includes(name))
  t.same(
    bundled.filter((name) => /^(?:typescript|tap|knip|playwright|@types\/|@biomejs\/)/.test(name)),
    []
  )
  t.same(
    TOOLS.filter((name) => !(name in devDependencies)),
    [],
    'each is still there'
  )
})

t.test(`a clone installs at most ${MOST} packages`, async (t) => {
  const here = Object.entries(packages).filter(
    ([place, { os = ['linux'], cpu = ['x64'], libc = ['glibc'] }]) =>
      place !== '' && existsSync(place) && os.includes('linux') && cpu.includes('x64') && libc.includes('glibc')
  )
  t.ok(here.length > 100 && here.length <= MOST, `${here.length} packages`)
})
