import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import ts from 'typescript'

/** Every source file of the product, parsed, by its path. */
const sources = new Map(
  readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => path.join('src', file))
    .map((file) => [file, ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true)])
)

/** Names that files of other folders import, as `file name`. */
function crossing(): Set<string> {
  const names = new Set<string>()
  for (const [file, source] of sources) {
    for (const statement of source.statements) {
      if (!ts.isImportDeclaration(statement) && !ts.isExportDeclaration(statement)) continue
      const { moduleSpecifier } = statement
      if (moduleSpecifier === undefined || !ts.isStringLiteral(moduleSpecifier)) continue
      if (!moduleSpecifier.text.startsWith('.')) continue
      const from = path.join(path.dirname(file), moduleSpecifier.text).replace(/\.js$/, '.ts')
      if (path.dirname(from) === path.dirname(file)) continue
      const bound = ts.isImportDeclaration(statement) ? statement.importClause?.namedBindings : statement.exportClause
      if (bound === undefined || ts.isNamespaceImport(bound) || ts.isNamespaceExport(bound)) continue
      for (const { name, propertyName } of bound.elements) names.add(`${from} ${(propertyName ?? name).text}`)
    }
  }
  return names
}

type Declared = ts.FunctionDeclaration | ts.ClassDeclaration

const isDeclared = (node: ts.Node): node is Declared => ts.isFunctionDeclaration(node) || ts.isClassDeclaration(node)

/** Has the declaration, or the first one of an overloaded function, a docstring with words in it? */
function isDocumented(node: Declared, source: ts.SourceFile): boolean {
  const all = source.statements.filter((other) => isDeclared(other) && other.name?.text === node.name?.text)
  return all.some((one) => ts.getJSDocCommentsAndTags(one).some((doc) => /[a-z]{2}/i.test(doc.getText(source))))
}

t.test('what other folders import says what it does', async (t) => {
  const wanted = crossing()
  const seen: string[] = []
  const silent: string[] = []
  for (const [file, source] of sources) {
    for (const node of source.statements) {
      if (!isDeclared(node) || node.name === undefined || !wanted.has(`${file} ${node.name.text}`)) continue
      seen.push(node.name.text)
      if (isDocumented(node, source)) continue
      const { line } = source.getLineAndCharacterOfPosition(node.getStart(source))
      silent.push(`${file}:${line + 1} ${node.name.text}`)
    }
  }
  t.ok(seen.length > 500, `${seen.length} declarations were looked at`)
  t.same(silent, [], 'functions and classes without a docstring')
})
