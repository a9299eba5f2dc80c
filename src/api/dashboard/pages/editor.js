/** The editor of policies and tests: CodeMirror with YAML, marks of problems and completion. */

import {
  acceptCompletion,
  autocompletion,
  bracketMatching,
  Compartment,
  completionKeymap,
  defaultKeymap,
  EditorState,
  EditorView,
  HighlightStyle,
  highlightActiveLine,
  history,
  historyKeymap,
  insertNewlineKeepIndent,
  keymap,
  lineNumbers,
  lintGutter,
  lintKeymap,
  Prec,
  setDiagnostics,
  syntaxHighlighting,
  tags,
  yamlLanguage
} from 'codemirror'
import { html, useEffect, useLayoutEffect, useRef } from './ui.js'

/**
 * A problem at a place of the text; line and column count from 1.
 * @typedef {{ severity: string, code?: string, message: string, line: number, column: number, length: number }} Mark
 * @typedef {{ label: string, value: string, onInput: (text: string) => void, marks?: readonly Mark[], suggest?: ReturnType<typeof import('./suggestions.js').suggester>, readOnly?: boolean, rows?: number }} EditorProps
 */

/** Maximum number of completions that are shown. */
const MAX_COMPLETIONS = 60
/** @type {readonly Mark[]} */
const NO_MARKS = []

/** Colours are those of the page, dark and light: custom properties are inherited into the shadow tree. */
const colours = HighlightStyle.define([
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.keyword, tags.labelName, tags.typeName, tags.meta], color: 'var(--info)' },
  { tag: [tags.attributeValue, tags.content], color: 'var(--ink)' },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: 'var(--muted)' }
])

const theme = EditorView.theme({
  '&': {
    color: 'var(--ink)',
    backgroundColor: 'var(--surface)',
    borderRadius: '6px',
    border: '1px solid var(--muted)'
  },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '1px' },
  '.cm-scroller': { font: '0.85rem / 1.45 var(--mono)', maxHeight: '36rem', overflow: 'auto', borderRadius: '5px' },
  '.cm-content': { caretColor: 'var(--ink)', padding: '8px 0' },
  '.cm-gutters': { backgroundColor: 'var(--ground)', color: 'var(--muted)', border: 'none' },
  '.cm-activeLine': { backgroundColor: 'transparent' },
  '&.cm-focused .cm-activeLine': { backgroundColor: 'var(--ground)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--mark)' },
  '&.cm-focused .cm-nonmatchingBracket': { backgroundColor: 'var(--bad-ground)' },
  '.cm-lintRange': { backgroundImage: 'none', paddingBottom: '0' },
  '.cm-lintRange-error': { textDecoration: 'underline wavy 1.5px var(--bad)' },
  '.cm-lintRange-warning': { textDecoration: 'underline wavy 1.5px var(--warn)' },
  '.cm-tooltip': {
    color: 'var(--ink)',
    backgroundColor: 'var(--surface)',
    border: '1px solid var(--line)',
    borderRadius: '6px',
    boxShadow: '0 6px 18px rgb(0 0 0 / 0.18)',
    maxWidth: 'min(36rem, 90vw)'
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': {
    font: '0.85rem / 1.45 var(--mono)',
    maxHeight: '14rem',
    maxWidth: '100%'
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': {
    padding: '0.15rem 0.4rem',
    overflow: 'hidden',
    textOverflow: 'ellipsis'
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    color: 'var(--info)',
    backgroundColor: 'var(--info-ground)'
  },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '650' },
  '.cm-completionDetail': { fontStyle: 'normal', color: 'var(--muted)' },
  'li[aria-selected] .cm-completionDetail': { color: 'inherit' },
  '.cm-panels': { color: 'var(--ink)', backgroundColor: 'var(--ground)', borderTop: '1px solid var(--line)' },
  '.cm-panel.cm-panel-lint ul [aria-selected]': { color: 'var(--info)', backgroundColor: 'var(--info-ground)' },
  '.cm-diagnostic': { whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' },
  '.cm-diagnosticSource': { color: 'var(--muted)', opacity: '1' }
})

/** Enter keeps the indentation of the line before, Tab accepts a completion and otherwise leaves the field. */
const keys = [
  Prec.high(keymap.of([...completionKeymap, { key: 'Tab', run: acceptCompletion }])),
  keymap.of([{ key: 'Enter', run: insertNewlineKeepIndent }, ...lintKeymap, ...historyKeymap, ...defaultKeymap])
]

/**
 * An editor for YAML. It stands in a shadow tree, where CodeMirror adopts its style sheets: the content security policy of the page admits
 * no style elements.
 * @param {EditorProps} props
 */
export function Editor({ label, value, onInput, marks = NO_MARKS, suggest, readOnly = false, rows = 18 }) {
  const host = useRef(/** @type {HTMLElement | null} */ (null))
  const view = useRef(/** @type {EditorView | undefined} */ (undefined))
  const settings = useRef(new Compartment())
  const now = useRef({ onInput, suggest })
  now.current = { onInput, suggest }
  const configured = () => [
    EditorState.readOnly.of(readOnly),
    EditorView.contentAttributes.of({ 'aria-label': label, ...(readOnly ? { 'aria-readonly': 'true' } : {}) }),
    EditorView.theme({ '.cm-content, .cm-gutter': { minHeight: `${rows * 1.45}em` } })
  ]

  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (host.current)
    const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' })
    const made = new EditorView({ parent: root, root, state: stateOf(value, settings.current.of(configured()), now) })
    view.current = made
    return () => made.destroy()
  }, [])
  useLayoutEffect(() => {
    view.current?.dispatch({ effects: settings.current.reconfigure(configured()) })
  }, [label, readOnly, rows])
  useLayoutEffect(() => {
    const shown = view.current
    if (shown === undefined || shown.state.doc.toString() === value) return
    shown.dispatch({ changes: { from: 0, to: shown.state.doc.length, insert: value } })
  }, [value])
  useEffect(() => {
    const shown = view.current
    if (shown === undefined) return
    const diagnostics = marks.flatMap((mark) => diagnosticOf(shown.state.doc, mark))
    shown.dispatch(setDiagnostics(shown.state, diagnostics))
  }, [marks])
  return html`<div class="editor" ref=${host}></div>`
}

/**
 * @param {string} doc
 * @param {import('@codemirror/state').Extension} configured
 * @param {{ current: { onInput: EditorProps['onInput'], suggest: EditorProps['suggest'] | undefined } }} now the callbacks of the last rendering
 */
function stateOf(doc, configured, now) {
  return EditorState.create({
    doc,
    extensions: [
      configured,
      keys,
      lintGutter(),
      lineNumbers(),
      history(),
      bracketMatching(),
      highlightActiveLine(),
      yamlLanguage,
      syntaxHighlighting(colours),
      theme,
      EditorState.tabSize.of(2),
      EditorState.phrases.of({ Completions: 'Suggestions' }),
      EditorView.contentAttributes.of({
        tabindex: '0',
        spellcheck: 'false',
        autocapitalize: 'off',
        autocorrect: 'off'
      }),
      autocompletion({
        override: [(context) => completionsAt(now.current.suggest, context)],
        icons: false,
        maxRenderedOptions: MAX_COMPLETIONS,
        interactionDelay: 0
      }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) now.current.onInput(update.state.doc.toString())
      })
    ]
  })
}

/**
 * @param {EditorProps['suggest'] | undefined} suggest
 * @param {import('@codemirror/autocomplete').CompletionContext} context
 */
function completionsAt(suggest, { state, pos, explicit }) {
  if (suggest === undefined || state.readOnly) return null
  const { from, suggestions } = suggest(state.doc.toString(), pos)
  if (suggestions.length === 0 || (!explicit && pos === from)) return null
  const options = suggestions.map(({ text, detail, insert }) => ({ label: text, detail, apply: insert ?? text }))
  // They are sorted already: those that begin with the word come first.
  return { from, options, filter: false }
}

/**
 * The diagnostic of a mark, on at least one character of its line; none where the text has no such line.
 * @param {import('@codemirror/state').Text} doc
 * @param {Mark} mark
 * @returns {import('@codemirror/lint').Diagnostic[]}
 */
function diagnosticOf(doc, { line, column, length, severity, message, code }) {
  if (line < 1 || line > doc.lines) return []
  const { from, to, length: width } = doc.line(line)
  const start = from + Math.max(0, Math.min(column - 1, width - 1))
  return [
    {
      from: start,
      to: Math.min(start + Math.max(1, length), to),
      severity: severity === 'error' ? 'error' : 'warning',
      message,
      ...(code === undefined ? {} : { source: code })
    }
  ]
}
