import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Command } from 'commander'
import t from 'tap'
import { runProgram } from '../src/cli/program.js'
import type { ModuleDefinition } from '../src/features/contract.js'
import { actions, modules } from '../src/features/registry.js'
import type { Action } from '../src/policy/action.js'

const SOURCES = fileURLToPath(new URL('../src', import.meta.url))
const LISTS: ReadonlySet<string> = new Set(['registry.js', 'program.js'])

/** The exports of the files of a folder, but for the one that lists them. */
async function exportsOf(folder: string): Promise<[file: string, name: string, value: unknown][]> {
  const found: [string, string, unknown][] = []
  for (const file of await readdir(join(SOURCES, folder), { recursive: true })) {
    if (!file.endsWith('.js') || LISTS.has(basename(file))) continue
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

const isAction = (value: unknown): value is Action =>
  typeof value === 'object' && value !== null && 'availability' in value && 'type' in value

const isModule = (value: unknown): value is ModuleDefinition =>
  typeof value === 'object' && value !== null && 'compile' in value && 'name' in value && !isAction(value)

t.test('every action and module of a feature has its line in the list and a test that names it', async (t) => {
  const texts = await testTexts()
  const exported = await exportsOf('features')
  const inActions = exported.map(([, , value]) => value).filter(isAction)
  const ready = actions.filter(({ availability }) => availability === 'ready')
  t.same(new Set(inActions), new Set(ready), 'what the folders have, the list has')
  for (const { type } of actions) t.ok(new RegExp(`\\b${type}\\b`).test(texts), `${type} has a test`)
  const inModules = exported.map(([, , value]) => value).filter(isModule)
  t.same(new Set(inModules), new Set(modules))
  for (const { name } of modules) t.ok(new RegExp(`\\b${name}\\b`).test(texts), `${name} has a test`)
})

t.test('every command that a file makes is in the help', async (t) => {
  const { write } = process.stdout
  let help = ''
  process.stdout.write = ((text: string) => {
    help += text
    return true
  }) as typeof write
  try {
    await runProgram(['--help'])
  } finally {
    process.stdout.write = write
  }
  const texts = await testTexts()
  const made = (await exportsOf('cli')).filter(
    ([, name, value]) => name.endsWith('Command') && value instanceof Function
  )
  t.ok(made.length > 5, `${made.length} commands`)
  for (const [, , make] of made) {
    const name = (make as () => Command)().name()
    t.match(help, new RegExp(`^ {2}${name}\\b`, 'm'))
    t.ok(new RegExp(`\\b${name}\\b`).test(texts), `${name} has a test`)
  }
})
