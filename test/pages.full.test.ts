import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import type { Command } from 'commander'
import t from 'tap'
import { createProgram } from '../src/cli/program.js'
import { optionEntries } from '../src/options/catalogue.js'
import { runCommand } from './cli/command.js'
import { projectFile } from './helpers/files.js'

const TOP = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md']

async function pages(): Promise<Map<string, string>> {
  const names = (await readdir('docs', { recursive: true })).filter((name) => name.endsWith('.md'))
  const files = [...TOP, ...names.map((name) => join('docs', name))]
  return new Map(await Promise.all(files.map(async (file) => [file, await readFile(file, 'utf8')] as const)))
}

/** As the hosts of repositories make anchors of headings. */
function anchorsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    String(heading)
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-')
  )
}

const all = await pages()
const withoutCode = (text: string) => text.replace(/```[\s\S]*?```/g, '').replace(/`[^`\n]*`/g, '')

t.test('each link of a page leads somewhere', async (t) => {
  let links = 0
  for (const [page, text] of all) {
    for (const [, target = ''] of withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      links++
      const [file = '', anchor] = target.split('#')
      const place = file === '' ? page : normalize(join(dirname(page), file))
      t.ok(existsSync(place), `${page}: ${target}`)
      if (anchor !== undefined && place.endsWith('.md')) {
        t.ok(anchorsOf(all.get(place) ?? (await readFile(place, 'utf8'))).includes(anchor), `${page}: ${target}`)
      }
    }
  }
  t.ok(links > 100, 'the pages are read')
})

t.test('the table of contents leads to every page, and the README is short', async (t) => {
  const contents = all.get('docs/README.md') ?? ''
  for (const page of all.keys()) {
    const name = page.replace(/^docs\//, '')
    if (name !== page && name !== 'README.md') t.ok(contents.includes(`](${name})`), page)
  }
  t.ok((all.get('README.md') ?? '').split('\n').length <= 120, 'README.md has at most 120 lines')
})

t.test('each command and flag that a page shows exists', async (t) => {
  const program = createProgram()
  let seen = 0
  for (const [page, text] of all) {
    if (page === 'docs/decisions.md') continue
    for (const [, words = ''] of text.matchAll(/(?:^|[`$ ])(?:\.\/)?sluice ((?:[a-z][a-z-]*)(?: [^`\n|]*)?)/gm)) {
      const given = words.split(/\s+/)
      let command: Command = program
      while (given.length > 0) {
        const child = command.commands.find((one) => one.name() === given[0])
        if (child === undefined) break
        command = child
        given.shift()
      }
      // Prose such as "sluice is": only what begins as a command is one.
      if (command === program) continue
      seen++
      const flags = given.filter((word) => /^--[a-z]/.test(word)).map((word) => /^--[a-z-]+/.exec(word)?.[0] ?? word)
      const known = [...command.options, ...program.options].map(({ long }) => long)
      const rest = words.split(/[#;&|]/)[0] ?? ''
      for (const flag of flags) {
        if (rest.includes(flag)) t.ok(known.includes(flag) || flag === '--help', `${page}: sluice ${words}`)
      }
    }
  }
  t.ok(seen > 60, `${seen} commands were looked at`)
})

t.test('each variable of the environment that a page names exists', async (t) => {
  const variables = new Set(optionEntries().map(({ variable }) => variable))
  const others = /^SLUICE_(?:CONFIG|API_KEY|SEAL_KEY|SEAL_KEY_NEW|PASSPHRASE|TOKEN|RECORD|TEST_[A-Z]+|H2SPEC)$/
  for (const [page, text] of all) {
    for (const [name] of text.matchAll(/\bSLUICE_[A-Z_]*[A-Z]\b/g))
      t.ok(variables.has(name) || others.test(name), `${page}: ${name}`)
  }
})

t.test('each site file of the page about migration is valid', async (t) => {
  const blocks = [...(all.get('docs/migration.md') ?? '').matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text]) =>
    String(text)
  )
  t.ok(blocks.length > 0)
  const cwd = t.testdir(Object.fromEntries(blocks.map((text, index) => [`${index}.yaml`, text])))
  const told = await runCommand(t, ['check', ...blocks.map((_, index) => `${index}.yaml`)], { cwd })
  t.equal(told.code, 0, told.out)
})

t.test('no page, message or help has a command that a package registry could answer', async (t) => {
  const folders = ['src', 'config', 'docs'].map((name) => projectFile(name))
  const found: string[] = []
  for (const folder of folders) {
    for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile() || !/\.(?:md|ts|js|mjs|yaml|service|json)$/.test(entry.name)) continue
      const path = join(entry.parentPath, entry.name)
      if (/\bnpx (?:--\S+ )*sluice\b/.test(await readFile(path, 'utf8'))) found.push(path)
    }
  }
  for (const [page, text] of all) if (/\bnpx (?:--\S+ )*sluice\b/.test(text)) found.push(page)
  t.same(found, [])
})
