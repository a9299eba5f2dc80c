import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Command } from 'commander'
import t from 'tap'
import { createProgram } from '../src/cli/program.js'
import type { Feature } from '../src/features/contract.js'
import { actions, features, inOrder, modules } from '../src/features/registry.js'

const SOURCES = fileURLToPath(new URL('../src', import.meta.url))
const LISTS: ReadonlySet<string> = new Set(['registry.js', 'program.js'])

/** The exports of the files of a folder whose paths match `files`, except for the one that lists them. */
async function exportsOf(folder: string, files = /\.js$/): Promise<[file: string, name: string, value: unknown][]> {
  const found: [string, string, unknown][] = []
  for (const file of await readdir(join(SOURCES, folder), { recursive: true })) {
    if (!files.test(file) || LISTS.has(basename(file))) continue
    const exported = (await import(pathToFileURL(join(SOURCES, folder, file)).href)) as Record<string, unknown>
    for (const [name, value] of Object.entries(exported)) found.push([file, name, value])
  }
  return found
}

async function testTexts(): Promise<string> {
  const files = await readdir('test', { recursive: true })
  const texts = files
    .filter((file) => file.endsWith('.ts') && !file.endsWith('promises.test.ts'))
    .map((file) => readFile(join('test', file), 'utf8'))
  return (await Promise.all(texts)).join('\n')
}

const isFeature = (value: unknown): value is Feature =>
  typeof value === 'object' && value !== null && 'name' in value && 'summary' in value

t.test('every file and folder of features is one line of the list and has a test of its name', async (t) => {
  const shared = new Set(['contract', 'registry'])
  const entries = (await readdir('src/features')).map((entry) => entry.replace(/\.ts$/, ''))
  t.same(new Set(features.map(({ name }) => name)), new Set(entries.filter((entry) => !shared.has(entry))))
  t.same(new Set((await exportsOf('features')).map(([, , value]) => value).filter(isFeature)), new Set(features))
  const tests = new Set(
    (await readdir('test/features')).map((entry) => entry.replace(/(?:\.full|\.long)?\.test\.ts$/, ''))
  )
  for (const { name } of features) t.ok(tests.has(name), `${name} has a test of its name in test/features`)
})

t.test('every action and module of a feature has a test that names it', async (t) => {
  const texts = await testTexts()
  for (const { type } of actions) t.ok(new RegExp(`\\b${type}\\b`).test(texts), `${type} has a test`)
  for (const { name } of modules) t.ok(new RegExp(`\\b${name}\\b`).test(texts), `${name} has a test`)
  t.equal(new Set(actions.map(({ type }) => type)).size, actions.length, 'no two actions have one name')
  t.same(new Set(modules), new Set(features.flatMap(({ modules: own = [] }) => own)))
})

t.test('a module without a place in the order is refused, and so is a place without a module', async (t) => {
  const names = modules.map(({ name }) => name)
  t.same(inOrder([...modules].reverse(), names), modules)
  t.throws(() => inOrder(modules, names.slice(1)), {
    message: `the module ${names[0]} has no place in the order of modules`
  })
  t.throws(() => inOrder(modules.slice(1), names), {
    message: `the order of modules names ${names[0]}, which no feature has`
  })
})

/** The names of commands and of those below them. */
function namesOf(commands: readonly Command[]): string[] {
  return commands.flatMap((command) => [command.name(), ...namesOf(command.commands)])
}

t.test('every command that a file makes is in the help', async (t) => {
  const names = new Set(namesOf(createProgram().commands))
  const texts = await testTexts()
  const made = [...(await exportsOf('cli')), ...(await exportsOf('capabilities', /\/command\.js$/))].filter(
    ([, name, value]) => name.endsWith('Command') && value instanceof Function
  )
  t.ok(made.length >= 25, `${made.length} commands`)
  for (const [file, , make] of made) {
    const name = (make as () => Command)().name()
    t.ok(names.has(name), `${name} of ${file} is a command of sluice`)
    t.ok(new RegExp(`\\b${name}\\b`).test(texts), `${name} has a test`)
  }
})
