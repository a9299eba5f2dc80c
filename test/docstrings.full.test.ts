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

/** The names that an exported statement declares. */
function exported(statement: ts.Statement): readonly string[] {
  const modifiers = ts.canHaveModifiers(statement) ? ts.getModifiers(statement) : undefined
  if (modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) !== true) return []
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations.flatMap(({ name }) => (ts.isIdentifier(name) ? [name.text] : []))
  const { name } = statement as ts.Statement & { readonly name?: ts.Identifier }
  return name === undefined ? [] : [name.text]
}

/** Has the statement a docstring with words in it? */
function isDocumented(statement: ts.Statement, source: ts.SourceFile): boolean {
  return ts.getJSDocCommentsAndTags(statement).some((doc) => /[a-z]{2}/i.test(doc.getText(source)))
}

t.test('what other folders import says what it is or does', async (t) => {
  const wanted = crossing()
  let seen = 0
  const documented = new Set<string>()
  const silent = new Map<string, string>()
  for (const [file, source] of sources) {
    for (const statement of source.statements) {
      for (const name of exported(statement)) {
        const key = `${file} ${name}`
        if (!wanted.has(key)) continue
        seen += 1
        // One signature of an overloaded function speaks for all.
        if (isDocumented(statement, source)) documented.add(key)
        const { line } = source.getLineAndCharacterOfPosition(statement.getStart(source))
        silent.set(key, `${file}:${line + 1} ${name}`)
      }
    }
  }
  t.ok(seen > 900, `${seen} declarations were looked at`)
  t.same(
    [...silent].filter(([key]) => !documented.has(key)).map(([, place]) => place),
    [],
    'exports without a docstring'
  )
})
