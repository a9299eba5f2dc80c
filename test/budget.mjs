import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { readImports } from './imports.mjs'

/**
 * Measures the size of `src` and compares it with `test/budget.json`, whose numbers may only fall: exits with 1 where one is exceeded, and names those
 * that can be lowered. `node test/budget.mjs --print` prints what it measures as a new `budget.json`.
 */

/** Largest numbers that a file or declaration may have without being counted. */
const MOST_MEMBERS = 15
const MOST_PARAMETERS = 5
const MOST_IMPORTS = 25

/** The lists of capabilities and of their options: who reads them names none. */
const REGISTRIES = ['src/capabilities/registry.ts', 'src/capabilities/options.ts']

const imports = readImports(['src'])
const typed = [...imports.keys()].filter((file) => file.endsWith('.ts'))
const sources = typed.map((file) => {
  const text = readFileSync(file, 'utf8')
  return { file, text, tree: ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true) }
})
const nodes = sources.flatMap(({ tree }) => allNodes(tree))
const importersOf = new Map()
for (const file of typed)
  for (const other of imports.get(file)) importersOf.set(other, (importersOf.get(other) ?? 0) + 1)
const measured = {
  lines: { total: sum(sources, linesOf), ...linesByRoom() },
  // Imports by which a kernel file names a capability.
  capabilityImportsInKernel: sum(
    typed.filter((file) => !file.startsWith('src/capabilities/') && file !== 'src/main.ts'),
    (file) =>
      local(imports.get(file)).filter((other) => other.startsWith('src/capabilities/') && !REGISTRIES.includes(other))
        .length
  ),
  filesWithOneImporter: typed.filter((file) => importersOf.get(file) === 1).length,
  filesWithManyImports: typed.filter((file) => local(imports.get(file)).length > MOST_IMPORTS).length,
  interfacesWithManyMembers: nodes.filter(
    (node) => ts.isInterfaceDeclaration(node) && node.members.length > MOST_MEMBERS
  ).length,
  functionsWithManyParameters: nodes.filter(
    (node) => ts.isFunctionLike(node) && node.parameters.length > MOST_PARAMETERS
  ).length,
  commentWordsPer100Lines: Math.round((100 * sum(sources, commentWords)) / sum(sources, linesOf))
}

if (process.argv.includes('--print')) console.log(JSON.stringify(measured, null, 2))
else compare(JSON.parse(readFileSync(join(import.meta.dirname, 'budget.json'), 'utf8')))

function compare(budget) {
  const allowed = new Map(entries(budget))
  for (const [name, value] of entries(measured)) {
    const most = allowed.get(name)
    if (most === undefined) fail(`${name} is ${value} and has no budget: add it to test/budget.json`)
    else if (value > most) fail(`${name} is ${value}, its budget is ${most}`)
    else if (value < most) console.log(`${name} is ${value}: its budget of ${most} can be lowered`)
  }
}

function fail(message) {
  console.error(`over budget: ${message}`)
  process.exitCode = 1
}

function entries(numbers, path = '') {
  return Object.entries(numbers).flatMap(([name, value]) =>
    typeof value === 'number' ? [[`${path}${name}`, value]] : entries(value, `${path}${name}.`)
  )
}

function linesByRoom() {
  const roomOf = ({ file }) => /^src\/(capabilities\/[^/]+|[^/]+)/.exec(file)[1]
  const rooms = [...new Set(sources.map(roomOf))].sort()
  return Object.fromEntries(
    rooms.map((room) => [
      room,
      sum(
        sources.filter((source) => roomOf(source) === room),
        linesOf
      )
    ])
  )
}

function linesOf({ text }) {
  return text.split('\n').length - 1
}

function commentWords({ text }) {
  const comments = text.match(/^\s*(?:\/\*\*|\*|\/\/).*$/gm) ?? []
  return comments.join(' ').match(/[A-Za-z]{2,}/g)?.length ?? 0
}

function local(names) {
  return names.filter((name) => name.startsWith('src/'))
}

function allNodes(node) {
  const children = []
  ts.forEachChild(node, (child) => void children.push(...allNodes(child)))
  return [node, ...children]
}

function sum(list, value) {
  return list.reduce((total, one) => total + value(one), 0)
}
