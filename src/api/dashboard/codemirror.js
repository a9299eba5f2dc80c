/**
 * Parts of CodeMirror 6 that the pages use, as one module. `config/build.mjs` bundles it for browsers, the dashboard serves the bundle as
 * `dashboard/lib/codemirror.js`, and pages import it as `codemirror`.
 */
export { acceptCompletion, autocompletion, completionKeymap } from '@codemirror/autocomplete'
export { defaultKeymap, history, historyKeymap, insertNewlineKeepIndent } from '@codemirror/commands'
export { yamlLanguage } from '@codemirror/lang-yaml'
export { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language'
export { lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint'
export { Compartment, EditorState, Prec } from '@codemirror/state'
export { EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view'
export { tags } from '@lezer/highlight'
