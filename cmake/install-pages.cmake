# While installing: man pages and completions, which the program itself prints, so that they say what its --help says. Set before:
# `tandem_program`, `man` and `data` (folders below the prefix), `pages` (where to write first).
function(tandem_print file)
  execute_process(COMMAND ${tandem_program} ${ARGN} OUTPUT_FILE ${file} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "tandem ${ARGN}: exit code ${failed}")
  endif()
endfunction()

file(REMOVE_RECURSE ${pages})
file(MAKE_DIRECTORY ${pages})
tandem_print(${pages}/tandem.1 man)
file(READ ${pages}/tandem.1 main)
string(REGEX MATCHALL "see tandem\\\\-[a-z]+" commands "${main}")  # it names the page of every command
foreach(command ${commands})
  string(REGEX REPLACE ".*-" "" command ${command})
  tandem_print(${pages}/tandem-${command}.1 man ${command})
endforeach()
file(GLOB manuals ${pages}/*.1)
file(INSTALL ${manuals} DESTINATION "${CMAKE_INSTALL_PREFIX}/${man}/man1")

foreach(place bash:bash-completion/completions/tandem zsh:zsh/site-functions/_tandem fish:fish/vendor_completions.d/tandem.fish)
  string(REGEX MATCH "^[a-z]+" shell ${place})
  string(REGEX REPLACE "^[a-z]+:" "" place ${place})
  get_filename_component(folder ${place} DIRECTORY)
  get_filename_component(name ${place} NAME)
  tandem_print(${pages}/${name} completion ${shell})
  file(INSTALL ${pages}/${name} DESTINATION "${CMAKE_INSTALL_PREFIX}/${data}/${folder}")
endforeach()
